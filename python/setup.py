# SPDX-License-Identifier: BSD-3-Clause
"""Builds the package: finds the C library that is installed, or builds one into the wheel.

Variables, all optional: SELVAGE_PREFIX is where Selvage is installed (else pkg-config is asked), or "none" to build the
library even so; MPICC the compiler wrapper of the MPI that mpi4py uses; SELVAGE_CONFIGURE more options of configure,
such as --with-cuda=yes. The sources are those of the tree that python/ is in, or of the sdist. They are for the
build: in a job, Selvage refuses variables that it does not know.
"""
import os
import pathlib
import re
import shlex
import shutil
import subprocess

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = pathlib.Path(__file__).resolve().parent
CARRIED = HERE / "source"  # the C sources in an sdist
SOURCE = CARRIED if CARRIED.exists() else HERE.parent
VERSION = (SOURCE / "VERSION").read_text().strip()
LIBRARY = re.search(r'^NAME = "(.*)"', (HERE / "selvage" / "_library.py").read_text(), re.MULTILINE).group(1)


def installed_library():
    """The library that SELVAGE_PREFIX or pkg-config names, or None."""
    prefix = os.environ.get("SELVAGE_PREFIX")
    if prefix == "none":
        return None
    if prefix:
        found = sorted(pathlib.Path(prefix).glob(f"lib*/{LIBRARY}")) + sorted(
            pathlib.Path(prefix).glob(f"lib/*/{LIBRARY}"))
        if not found:
            raise SystemExit(f"SELVAGE_PREFIX={prefix}: there is no {LIBRARY} in its lib")
        return found[0]
    if not shutil.which("pkg-config"):
        return None
    asked = subprocess.run(["pkg-config", "--variable=libdir", f"selvage = {VERSION}"], stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, text=True, check=False)
    found = pathlib.Path(asked.stdout.strip()) / LIBRARY
    return found if asked.returncode == 0 and found.exists() else None


def build_library(work, target):
    """Builds the library and the plug-ins that were configured, and copies them to target."""
    if not (SOURCE / "configure").exists():  # a clone, and no archive of a release
        subprocess.run(["autoreconf", "-i"], cwd=SOURCE, check=True)
    if (SOURCE / "config.status").exists():
        raise SystemExit(f"{SOURCE} is configured in place, which leaves no room for another build: run make distclean "
                         "there, or name an installed Selvage in SELVAGE_PREFIX")
    work.mkdir(parents=True, exist_ok=True)
    options = ["--with-cuda=no", "--with-hip=no", "--with-fortran=no", "--disable-static"]
    options += [f"--with-mpi={os.environ['MPICC']}"] if os.environ.get("MPICC") else []
    options += shlex.split(os.environ.get("SELVAGE_CONFIGURE", ""))
    flags = {"CFLAGS": "-O2", "CXXFLAGS": "-O2", **os.environ}  # half the time that host kernels take by -O3
    flags.pop("MPICC", None)
    subprocess.run([str(SOURCE / "configure"), *options], cwd=work, env=flags, check=True)
    plugins = re.findall(r"^selvage(?:plugin|amd)_LTLIBRARIES = (\S+)", (work / "Makefile").read_text(), re.MULTILINE)
    jobs = len(os.sched_getaffinity(0))
    subprocess.run(["make", f"-j{jobs}", "libselvage.la", *plugins], cwd=work, check=True)
    target.mkdir(parents=True, exist_ok=True)
    for name in (LIBRARY, *(plugin.replace(".la", ".so") for plugin in plugins)):
        shutil.copy(work / ".libs" / name, target / name)


class BuildWithLibrary(build_py):
    """Adds the library, or the name of the one that is installed, to the package."""

    def run(self):
        super().run()
        if getattr(self, "editable_mode", False):
            return  # used from its sources, the package takes what the dynamic loader finds
        package = pathlib.Path(self.build_lib) / "selvage"
        found = installed_library()
        if found:
            (package / "_found.py").write_text(f'"""Where the C library was when this was built."""\n'
                                               f"LIBRARY = {str(found)!r}\n")
        else:
            build_library(pathlib.Path(self.get_finalized_command("build").build_temp).resolve() / "library",
                          package / "lib")


class WheelOfThisMachine(bdist_wheel):
    """The wheel is for any Python 3, and for this machine's library."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class SourcesWithLibrary(sdist):
    """Adds the C sources to the sdist: what git tracks of them, or what the archive of a release has."""

    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        listed = subprocess.run(["git", "ls-files"], cwd=SOURCE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                text=True, check=False) if (SOURCE / ".git").exists() else None
        if listed and listed.returncode == 0:
            names = listed.stdout.splitlines()
        else:
            names = [str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*") if path.is_file()]
        for name in names:
            if not name.startswith("python/"):
                to = pathlib.Path(base_dir) / "source" / name
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(SOURCE / name, to)


setup(version=VERSION, cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": WheelOfThisMachine,
                                 "sdist": SourcesWithLibrary})
