#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Packages, recipes, NEWS and the citation agree with the tree: they have its version, and every option that they give
# configure is one of its options. Every variant of the Spack recipe gives some, by a stand-in for Spack. The
# environment module, as it is installed, is one that Tcl reads, and names folders of the installation.
set -u
top_srcdir=$(cd "${top_srcdir:-$(dirname "$0")/../..}" && pwd)
top_builddir=$(cd "${top_builddir:-.}" && pwd)
python=${PYTHON:-python3}
command -v "$python" >/dev/null 2>&1 || { echo "no python3"; exit 77; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
version=$(cat "$top_srcdir/VERSION") packaging=$top_srcdir/packaging
failed=0
fail() { echo "FAIL: $*"; failed=1; }

head -n 1 "$top_srcdir/debian/changelog" | grep -qF "selvage ($version-" || fail "debian/changelog is not of $version"
head -n 1 "$top_srcdir/NEWS" | grep -qE "^Selvage $version \(" || fail "NEWS does not begin with $version"
grep -qxF "version: $version" "$top_srcdir/CITATION.cff" || fail "CITATION.cff is not of $version"
grep -qF "ARCHIVE=selvage-$version.tar.xz" "$packaging/selvage.def" || fail "selvage.def is not of $version"
recipe=$packaging/spack/spack_repo/selvage/packages/selvage/package.py
grep -qF "version(\"$version\")" "$recipe" || fail "the Spack recipe is not of $version"
for file in "$packaging"/easybuild/*.eb; do
    case $file in */Selvage-"$version"-*) ;; *) fail "${file##*/} is not of $version" ;; esac
    grep -qxF "version = '$version'" "$file" || fail "${file##*/} is not of $version"
done

# Options, as the Spack recipe gives them for all variants and for none, and as the others name them.
cat >"$dir/spack.py" <<'END'
import sys, types
words = open(sys.argv[1], encoding='utf-8').read()
names = 'variant depends_on requires conflicts license maintainers version'.split()
scope = {name: lambda *args, **more: None for name in names}
kept = scope['seen'] = []
scope['variant'] = lambda name, **more: kept.append(name)
wrap = lambda *args, **more: lambda function: function
scope.update(run_after=wrap, on_package_attributes=wrap)
class Base:
    def with_or_without(self, name, activation_value=None):
        return ['--with-%s=/prefix' % name] if self.on else ['--without-' + name]
    def enable_or_disable(self, name):
        return ['--%s-%s' % ('enable' if self.on else 'disable', name)]
for name in 'AutotoolsPackage CudaPackage ROCmPackage'.split():
    scope[name] = type(name, (Base,), {})
Base.__init__ = lambda self, on: setattr(self, 'on', on)
code = '\n'.join(line for line in words.split('\n') if not line.startswith('from spack'))
exec(compile(code, sys.argv[1], 'exec'), scope)
class Spec(dict):
    variants = {'cuda_arch': types.SimpleNamespace(value=('80', '90'))}
    def __missing__(self, name):
        return types.SimpleNamespace(prefix='/prefix', mpicc='/mpicc', mpifc='/mpifort')
for on in (True, False):
    package = scope['Selvage'](on)
    package.spec = Spec()
    package.spec.satisfies = lambda what: on
    for word in package.configure_args():
        print(word.replace('--without-', '--with-').replace('--disable-', '--enable-').split('=')[0])
assert {'hwloc', 'ucx', 'fortran'} <= set(kept), kept
END
"$python" "$dir/spack.py" "$recipe" >"$dir/options" || fail "the Spack recipe"
for option in mpi hwloc ucx fortran cuda cuda-archs hip; do
    grep -qx -- "--with-$option" "$dir/options" || fail "the Spack recipe never gives --with-$option"
done
cat "$packaging"/easybuild/*.eb "$packaging/selvage.def" "$top_srcdir/debian/rules" |
    grep -oE -- '--(with|enable)-[a-z-]+' >>"$dir/options"
known=$(cat "$top_srcdir/configure.ac" "$top_srcdir"/m4/selvage*.m4 |
    sed -n 's/.*AC_ARG_\(WITH\|ENABLE\)(\[\([a-z-]*\)\].*/\1-\2/p' | tr '[:upper:]\n' '[:lower:] ')
sort -u "$dir/options" >"$dir/sorted"
while read -r option; do
    case " $known enable-shared enable-static " in
    *" ${option#--} "*) ;;
    *) fail "configure has no option $option" ;;
    esac
done <"$dir/sorted"

make -s -C "$top_builddir" install-modulefile DESTDIR="$dir/root" MAKEFLAGS= >"$dir/log" 2>&1 ||
    { cat "$dir/log"; fail "make"; }
module=$(find "$dir/root" -name "$version" -type f)
grep -q '@' "$module" && fail "something is left to be filled in: $(grep '@' "$module")"
if command -v tclsh >/dev/null 2>&1; then
    cat >"$dir/read.tcl" <<'END'
foreach command {module-whatis conflict prepend-path append-path} {
    proc $command {args} [list puts $command]
}
source [lindex $argv 0]
ModulesHelp
END
    tclsh "$dir/read.tcl" "$module" >"$dir/module" 2>&1 || { cat "$dir/module"; fail "Tcl does not read the module"; }
    [ "$(grep -c prepend-path "$dir/module")" -eq 6 ] || fail "the module sets other things"
fi
echo "$(wc -l <"$dir/sorted") options"
exit "$failed"
