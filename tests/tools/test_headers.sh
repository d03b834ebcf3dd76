#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Each public header compiles alone, and twice in one file, with every warning: those in C as C11 and as C++17, those in
# C++ as C++11. All of them together, with what C++ programs do with them, compile as C++11, C++14, C++17 and C++20 by
# each compiler that is here, without exceptions, and in the host and the device pass of nvcc and of clang for AMD GPUs.
# MPI's own headers come in as system headers: their warnings are not ours. With BRIEF, one compiler parses the
# oldest and the newest standard.
set -u
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
system=$(echo "$MPI_CPPFLAGS" | sed 's/\(^\| \)-I/ -isystem /g')
warnings="-pedantic -Wall -Wextra -Wundef -Wshadow -Werror"
failed=0 count=0 together=0
for header in "$top_srcdir"/include/selvage.{h,hpp} "$top_srcdir"/include/selvage/*.{h,hpp}; do
    name=${header#"$top_srcdir"/include/}
    printf '#include <%s>\n#include <%s>\nextern int in_use;\n' "$name" "$name" | tee "$dir/one.c" >"$dir/one.cc"
    case $name in
    *.hpp)
        # shellcheck disable=SC2086  # lists of words
        $CXX -std=c++11 $warnings -I"$top_srcdir/include" $system -fsyntax-only "$dir/one.cc" ||
            { echo "$name: not C++11"; failed=1; } ;;
    *)
        # shellcheck disable=SC2086
        $CC -std=c11 $warnings -I"$top_srcdir/include" $system -c "$dir/one.c" \
            -o "$dir/one.o" || { echo "$name: not C11"; failed=1; }
        # shellcheck disable=SC2086
        $CXX -std=c++17 $warnings -I"$top_srcdir/include" $system -c "$dir/one.cc" \
            -o "$dir/one.o" || { echo "$name: not C++17"; failed=1; } ;;
    esac
    count=$((count + 1))
done

# Every header, with every struct that is to be started.
{
    for header in "$top_srcdir"/include/selvage.{h,hpp} "$top_srcdir"/include/selvage/*.{h,hpp}; do
        echo "#include <${header#"$top_srcdir"/include/}>"
    done
    echo "extern std::size_t started;"
    echo "std::size_t started = 0;"
    sed -n 's/^static inline \(selvage_[a-z_]*_t\) \(selvage_[a-z_]*_init\)(void)$/\1 \2/p' \
        "$top_srcdir"/include/selvage/*.h | while read -r type function; do
        printf 'extern %s of_%s;\n%s of_%s = %s();\n' "$type" "$type" "$type" "$type" "$function"
    done
    cat <<'END'
void step(selvage::halo &halo, selvage::stream &stream);
void step(selvage::halo &halo, selvage::stream &stream)
{
    halo.start(stream);
    selvage::check(selvage_halo_wait(halo, stream));
}
#if __cplusplus >= 202002L && __has_include(<span>)
#include <span>
std::size_t borrow(std::span<double> doubles, std::span<const std::int64_t> numbers);
std::size_t borrow(std::span<double> doubles, std::span<const std::int64_t> numbers)
{
    const selvage::span<const std::int64_t> list = numbers;
    const selvage::bytes received = doubles;
    const selvage::const_bytes sent = doubles;
    return list.size() + received.size() + sent.size() + std::span<const std::int64_t>(list).size();
}
#endif
END
} >"$dir/all.cc"
structs=$(grep -c '^extern selvage_' "$dir/all.cc")
macros=$(cat "$top_srcdir"/include/selvage/*.h | grep -c '^#define SELVAGE_[A-Z_]*_INIT ')
[ "$structs" -eq "$macros" ] && [ "$macros" -gt 5 ] || { echo "$macros _INIT macros, $structs functions"; failed=1; }

compile() { # COMPILER FLAG...
    together=$((together + 1))
    # shellcheck disable=SC2086
    $1 "${@:2}" -I"$top_srcdir/include" $system "$dir/all.cc" || { echo "together: $*"; failed=1; }
}
standards="11 14 17 20" clang=$(command -v clang++) missing=
[ -n "$clang" ] || missing="$missing clang++"
[ -z "${BRIEF:-}" ] || { standards="11 20"; clang=; }
for compiler in "$CXX" "$clang"; do
    [ -n "$compiler" ] || continue
    # shellcheck disable=SC2086
    for standard in $standards; do compile "$compiler" "-std=c++$standard" $warnings -fsyntax-only; done
    # shellcheck disable=SC2086
    compile "$compiler" -std=c++11 $warnings -fsyntax-only -fno-exceptions -fno-rtti
done
nvcc=${NVCC:-$(command -v nvcc)}
hip=${HIP_CLANG:-$(command -v clang-19 || command -v clang-18)}
if [ -z "$nvcc" ]; then
    missing="$missing nvcc"
elif [ -z "${BRIEF:-}" ]; then # -Wundef and -pedantic would be about headers and code of nvcc's own
    compile "$nvcc" -x cu -std=c++17 -Werror all-warnings -Xcompiler -Wall,-Wextra,-Wshadow,-Werror -c -o "$dir/all.o"
fi
if [ -z "$hip" ]; then
    missing="$missing clang-for-HIP"
else # the device pass; the other one is that of clang++, without HIP's own headers
    # shellcheck disable=SC2086
    compile "$hip" -x hip -std=c++17 $warnings --offload-device-only --offload-arch=gfx90a -nogpulib -nogpuinc \
        -fsyntax-only
fi
echo "$count headers alone, $together times together${missing:+; not here:$missing}"
exit "$failed"
