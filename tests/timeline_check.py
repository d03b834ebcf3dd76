#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""timeline_check.py FILE RANKS EPOCHS PACKETS [order] [held=RANK:PACKET:SECONDS]

Reads the timeline that a run of timeline_driver wrote and checks it. Always: it is valid, every rank shows every
phase of every epoch once, and every packet sent and verified. order: the legs of the staged route overlap. held: that
packet arrived as late as it was held, and every other one of its epoch long before.
"""
import json
import sys
from collections import defaultdict

LEGS = ['prepare', 'device to host', 'send', 'receive', 'host to device', 'verify']
PHASES = ['phase %d' % i for i in range(7)]
failures = []


def check(condition, *text):
    if not condition:
        failures.append(' '.join(str(word) for word in text))


class Timeline:
    """Events by (rank, epoch, name); begin and end in seconds."""

    def __init__(self, path):
        with open(path, encoding='utf-8') as opened:
            events = json.load(opened)['traceEvents']
        self.named = {e['pid'] for e in events if e['ph'] == 'M' and e['name'] == 'process_name'}
        self.found = defaultdict(list)
        for event in events:
            if event['ph'] == 'M':
                continue
            check(event['ph'] in 'Xi', 'strange event', event)
            check(event.get('dur', 0) >= 0, 'ends before it begins:', event)
            event['begin'] = event['ts'] * 1e-6
            event['end'] = event['begin'] + event.get('dur', 0) * 1e-6
            self.found[event['pid'], event['args']['epoch'], event['name']].append(event)

    def get(self, rank, epoch, name):
        return self.found[rank, epoch, name]

    def packets(self, rank, epoch, name):
        return sorted({e['args']['packet'] for e in self.get(rank, epoch, name)})


def check_complete(timeline, ranks, epochs, packets, staged):
    everything = list(range(packets))
    check(timeline.named == set(range(ranks)), 'ranks with a name:', timeline.named)
    for rank in range(ranks):
        for epoch in range(1, epochs + 1):
            where = 'rank %d epoch %d:' % (rank, epoch)
            check(len(timeline.get(rank, epoch, 'epoch')) == 1, where, 'epoch not shown once')
            for phase in PHASES:
                check(len(timeline.get(rank, epoch, phase)) == 1, where, phase, 'not shown once')
            for name in ['verify', 'verdict seen'] + (LEGS if staged else []):
                shown = timeline.packets(rank, epoch, name)
                check(shown == everything, where, name, 'of packets', shown)
            for event in timeline.get(rank, epoch, 'verify'):
                check(event['args']['peer'] == (rank - 1) % ranks, where, 'verified from a stranger', event)
    check(not any(name in ('bad packet', 'asked again', 'resend', 'poisoned') and found
                  for (_, _, name), found in timeline.found.items()), 'something went wrong in the run')


def check_order(timeline, ranks, epochs):
    """One leg begins before the one under it is over, on every rank and in every epoch."""
    for rank in range(ranks):
        for epoch in range(1, epochs + 1):
            def first(name):
                return min(e['begin'] for e in timeline.get(rank, epoch, name))

            def last(name):
                return max(e['end'] for e in timeline.get(rank, epoch, name))
            where = 'rank %d epoch %d:' % (rank, epoch)
            check(first('send') < last('device to host'), where, 'the first send is after the last copy down')
            check(first('host to device') < last('receive'), where, 'the first copy up is after the last receive')
            print(where, 'first send %.1f ms before the last copy down, first copy up %.1f ms before the last receive' %
                  (1e3 * (last('device to host') - first('send')), 1e3 * (last('receive') - first('host to device'))))


def check_held(timeline, ranks, epochs, sender, packet, seconds):
    receiver = (sender + 1) % ranks
    for epoch in range(1, epochs + 1):
        check(len(timeline.get(sender, epoch, 'fault injected')) == 1, 'epoch', epoch, 'has not one held packet')
        begin = min(timeline.get(rank, epoch, 'epoch')[0]['begin'] for rank in range(ranks))
        held, others = [], []
        for rank in range(ranks):
            for event in timeline.get(rank, epoch, 'verify'):
                is_held = rank == receiver and event['args']['packet'] == packet
                (held if is_held else others).append(event['end'] - begin)
        check(len(held) == 1 and held[0] >= seconds, 'epoch', epoch, 'the held packet took', held)
        check(others and max(others) < seconds / 2, 'epoch', epoch, 'others took', max(others, default=None))
        print('epoch %d: held packet %.3f s, slowest of %d others %.3f s' %
              (epoch, max(held, default=0), len(others), max(others, default=0)))


def main():
    path, ranks, epochs, packets = sys.argv[1], *map(int, sys.argv[2:5])
    timeline = Timeline(path)
    options = sys.argv[5:]
    check_complete(timeline, ranks, epochs, packets, 'order' in options)
    for option in options:
        if option == 'order':
            check_order(timeline, ranks, epochs)
        elif option.startswith('held='):
            sender, packet, seconds = option[5:].split(':')
            check_held(timeline, ranks, epochs, int(sender), int(packet), float(seconds))
    for failure in failures[:20]:
        print('FAIL: %s: %s' % (path, failure))
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main())
