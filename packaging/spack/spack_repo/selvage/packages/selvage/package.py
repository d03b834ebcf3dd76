# SPDX-License-Identifier: BSD-3-Clause
import os

from spack_repo.builtin.build_systems.autotools import AutotoolsPackage
from spack_repo.builtin.build_systems.cuda import CudaPackage
from spack_repo.builtin.build_systems.rocm import ROCmPackage

from spack.package import *


class Selvage(AutotoolsPackage, CudaPackage, ROCmPackage):
    """Selvage moves halos and reductions between GPUs over MPI, and proves that what
    arrived is what was sent."""

    homepage = "https://selvage.example.org"
    manual_download = True

    license("BSD-3-Clause")
    maintainers("selvage")

    # The archive of `make dist` lies in the folder that spack is called in, or in a mirror.
    version("0.2.0")

    variant("hwloc", default=True, description="Locality of cores and devices by hwloc")
    variant("ucx", default=True, description="Host messages over UCX, where SELVAGE_WIRE=ucx")
    variant("fortran", default=True, description="The Fortran module")
    variant("shared", default=True, description="The shared library, and with it the drop-in")
    variant("static", default=False, description="The static library")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("fortran", type="build", when="+fortran")
    depends_on("gmake", type="build")
    depends_on("python@3.6:", type="build")
    depends_on("mpi@3:")
    depends_on("hwloc@2:", when="+hwloc")
    depends_on("ucx@1.11:", when="+ucx")
    depends_on("hip", when="+rocm")

    requires("+shared", "+static", policy="any_of", msg="there is no library without shared or static")
    conflicts("~shared", when="+cuda", msg="plug-ins for GPUs are shared libraries")
    conflicts("~shared", when="+rocm", msg="plug-ins for GPUs are shared libraries")
    conflicts("cuda_arch=none", when="+cuda", msg="name the architectures: cuda_arch=90")

    def url_for_version(self, version):
        return f"file://{os.getcwd()}/selvage-{version}.tar.xz"

    def configure_args(self):
        spec = self.spec
        args = [f"--with-mpi={spec['mpi'].mpicc}"]
        args += self.with_or_without("hwloc", activation_value="prefix")
        args += self.with_or_without("ucx", activation_value="prefix")
        args += self.enable_or_disable("shared")
        args += self.enable_or_disable("static")
        if spec.satisfies("+fortran"):
            args.append(f"--with-fortran={spec['mpi'].mpifc}")
        else:
            args.append("--without-fortran")
        if spec.satisfies("+cuda"):
            args.append(f"--with-cuda={spec['cuda'].prefix}")
            args.append("--with-cuda-archs=" + ",".join(spec.variants["cuda_arch"].value))
        else:
            args.append("--without-cuda")
        if spec.satisfies("+rocm"):
            args.append(f"--with-hip={spec['hip'].prefix}")
        else:
            args.append("--without-hip")
        return args

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def check_info(self):
        """The installed tool finds the library and the software device."""
        Executable(self.prefix.bin.join("selvage-info"))("--settings")
