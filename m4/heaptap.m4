dnl SPDX-License-Identifier: Apache-2.0
dnl heaptap.m4: the pieces of configure.ac that are more than a line.

dnl HT_DEVEL: --enable-devel and the switches that it turns on together.
AC_DEFUN([HT_DEVEL], [
AC_ARG_ENABLE([devel], [AS_HELP_STRING([--enable-devel],
	[everything for developers: -Werror, ASan, UBSan, asserts, fault points])],
	[], [enable_devel=no])
AC_ARG_ENABLE([werror], [AS_HELP_STRING([--enable-werror],
	[of --enable-devel, -Werror alone])], [], [enable_werror=$enable_devel])
AC_ARG_ENABLE([fuzzing], [AS_HELP_STRING([--enable-fuzzing],
	[libFuzzer harnesses, with ASan and UBSan (needs CC=clang)])], [], [enable_fuzzing=no])
ht_sanitize=no
AS_IF([test "$enable_devel$enable_fuzzing" != nono], [ht_sanitize=yes])
AC_ARG_ENABLE([asan], [AS_HELP_STRING([--enable-asan],
	[of --enable-devel, ASan alone])], [], [enable_asan=$ht_sanitize])
AC_ARG_ENABLE([ubsan], [AS_HELP_STRING([--enable-ubsan],
	[of --enable-devel, UBSan alone])], [], [enable_ubsan=$ht_sanitize])
AC_ARG_ENABLE([asserts], [AS_HELP_STRING([--enable-asserts],
	[of --enable-devel, asserts alone])], [], [enable_asserts=$enable_devel])
AC_ARG_ENABLE([faults], [AS_HELP_STRING([--enable-faults],
	[of --enable-devel, fault points alone])], [], [enable_faults=$enable_devel])
AC_ARG_ENABLE([tsan], [AS_HELP_STRING([--enable-tsan],
	[thread sanitizer, for the tool and unit tests])], [], [enable_tsan=no])
AC_ARG_ENABLE([coverage], [AS_HELP_STRING([--enable-coverage],
	[gcov counters in the tool and unit tests])], [], [enable_coverage=no])

dnl Sanitizers are for the tool and its tests. The hook runs inside other programs
dnl and is built with its own flags, so they go to HT_CFLAGS and not to CFLAGS.
HT_CFLAGS=
HT_LDFLAGS=
AS_IF([test "$enable_asan" = yes], [HT_CFLAGS="$HT_CFLAGS -fsanitize=address -fno-omit-frame-pointer"
	HT_LDFLAGS="$HT_LDFLAGS -fsanitize=address"])
AS_IF([test "$enable_ubsan" = yes],
	[HT_CFLAGS="$HT_CFLAGS -fsanitize=undefined -fno-sanitize-recover=undefined"
	HT_LDFLAGS="$HT_LDFLAGS -fsanitize=undefined"])
AS_IF([test "$enable_tsan" = yes], [HT_CFLAGS="$HT_CFLAGS -fsanitize=thread"
	HT_LDFLAGS="$HT_LDFLAGS -fsanitize=thread"])
AS_IF([test "$enable_coverage" = yes], [HT_CFLAGS="$HT_CFLAGS --coverage"
	HT_LDFLAGS="$HT_LDFLAGS --coverage"])
AS_IF([test "$enable_fuzzing" = yes], [HT_CFLAGS="$HT_CFLAGS -fsanitize=fuzzer-no-link"
	HT_LDFLAGS="$HT_LDFLAGS -fsanitize=fuzzer-no-link"])
AS_IF([test "$enable_asserts" = no], [HT_CFLAGS="$HT_CFLAGS -DNDEBUG"])
AS_IF([test "$enable_faults" = yes],
	[AC_DEFINE([HT_FAULTS], [1], [Define to compile the named fault points in.])])
AM_CONDITIONAL([HT_FAULTS], [test "$enable_faults" = yes])
AS_IF([test "$enable_fuzzing" = yes],
	[AC_DEFINE([HT_FUZZING], [1], [Define to link the harnesses with libFuzzer.])
	AC_SUBST([HT_FUZZ_ENGINE], [-fsanitize=fuzzer])])
AM_CONDITIONAL([HT_FUZZING], [test "$enable_fuzzing" = yes])
AM_CONDITIONAL([HT_SANITIZED], [test "$enable_asan$enable_ubsan$enable_tsan" != nonono])
AC_SUBST([HT_CFLAGS])
AC_SUBST([HT_LDFLAGS])
])

dnl HT_LIBRARIES: what the tool links with. The hook links with nothing.
AC_DEFUN([HT_LIBRARIES], [
AC_ARG_ENABLE([portable], [AS_HELP_STRING([--enable-portable],
	[link all but libc statically: one file, for any server])], [], [enable_portable=no])
ht_save_PKG_CONFIG=$PKG_CONFIG
AS_IF([test "$enable_portable" = yes], [PKG_CONFIG="$PKG_CONFIG --static"])
PKG_CHECK_MODULES([ELFUTILS], [libelf libdw >= 0.186])
PKG_CHECK_MODULES([UNWIND], [libunwind-ptrace libunwind-generic])
PKG_CHECK_MODULES([ZLIB], [zlib])
PKG_CHECK_MODULES([LZMA], [liblzma])
PKG_CONFIG=$ht_save_PKG_CONFIG
dnl LLVM's libunwind answers to the same -l name and lacks the remote interface.
ht_save_LIBS=$LIBS
LIBS="$UNWIND_LIBS $LIBS"
AC_MSG_CHECKING([for the remote interface of libunwind])
AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <libunwind.h>]],
	[[unw_create_addr_space(0, 0)]])], [AC_MSG_RESULT([yes])],
	[AC_MSG_RESULT([no])
	AC_MSG_ERROR([libunwind is not the one of nongnu.org (install libunwind-dev)])])
LIBS=$ht_save_LIBS
AC_CHECK_HEADER([Zydis/Zydis.h], [],
	[AC_MSG_ERROR([Zydis/Zydis.h not found (install libzydis-dev)])])
AC_CHECK_LIB([Zydis], [ZydisDecoderInit], [AC_SUBST([ZYDIS_LIBS], [-lZydis])],
	[AC_MSG_ERROR([libZydis not found (install libzydis-dev)])])
AC_CHECK_HEADER([libiberty/demangle.h], [],
	[AC_MSG_ERROR([libiberty/demangle.h not found (install libiberty-dev)])])
AC_CHECK_LIB([iberty], [cplus_demangle], [AC_SUBST([IBERTY_LIBS], [-liberty])],
	[AC_MSG_ERROR([libiberty not found (install libiberty-dev)])])
dnl libdebuginfod is loaded when it is wanted; glibc before 2.34 has dlopen in a library.
AC_SEARCH_LIBS([dlopen], [dl])
AS_IF([test "$enable_portable" = yes], [HT_ARCHIVES])
AC_SUBST([HT_PORTABLE], [$enable_portable])
PKG_CHECK_MODULES([CHECK], [check >= 0.15], [have_check=yes], [have_check=no])
AM_CONDITIONAL([HAVE_CHECK], [test "$have_check" = yes])
])

dnl HT_ARCHIVES: the same libraries as archives. By -l:NAME and not -Bstatic, so that what
dnl belongs to libc, and a compiler's own libraries, are linked as ever.
AC_DEFUN([HT_ARCHIVES], [
m4_foreach_w([ht_var], [UNWIND_LIBS ELFUTILS_LIBS ZYDIS_LIBS IBERTY_LIBS ZLIB_LIBS LZMA_LIBS], [
ht_archives=
for ht_word in $ht_var; do
	AS_CASE([$ht_word], [-lpthread | -lm | -ldl | -lrt], [],
		[-l*], [ht_archive=lib$(AS_ECHO(["$ht_word"]) | sed s/-l//).a
			HT_CHECK_ARCHIVE
			ht_word=-l:$ht_archive])
	ht_archives="$ht_archives $ht_word"
done
ht_var=$ht_archives
])
dnl Debian's archives of libunwind are no position-independent code.
HT_LDFLAGS="$HT_LDFLAGS -static-libgcc -no-pie"
])

dnl HT_CHECK_ARCHIVE: the linker finds $ht_archive. Nothing in it is needed here.
AC_DEFUN([HT_CHECK_ARCHIVE], [
LIBS="-l:$ht_archive $ht_save_LIBS"
AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])], [], [
	AS_CASE([$ht_archive],
		[libunwind*], [ht_how="install libunwind-dev"],
		[libz.a], [ht_how="install zlib1g-dev"],
		[libZydis.a], [ht_how="tools/static-zydis DIR makes it for LDFLAGS=-LDIR"],
		[ht_how="install $(basename $ht_archive .a)-dev"])
	AC_MSG_ERROR([$ht_archive not found, for --enable-portable ($ht_how)])])
LIBS=$ht_save_LIBS
])

dnl HT_WARNINGS: the warning list, and -Werror for developers.
AC_DEFUN([HT_WARNINGS], [
HT_WARN_CFLAGS="-Wall -Wextra -Wformat=2 -Wmissing-prototypes -Wstrict-prototypes dnl
-Wold-style-definition -Wshadow -Wundef -Wvla -Wwrite-strings -Wpointer-arith dnl
-Wimplicit-fallthrough -Wno-unused-parameter -Wno-missing-field-initializers"
AS_IF([test "$enable_werror" = yes], [HT_WARN_CFLAGS="$HT_WARN_CFLAGS -Werror"])
AC_SUBST([HT_WARN_CFLAGS])
dnl gcc only: no calls to memset made out of the hook's loops (clang obeys -fno-builtin),
dnl and no merging of equal functions in a test program.
HT_IF_FLAG([-fno-tree-loop-distribute-patterns], [HT_HOOK_LOOP_CFLAGS])
HT_IF_FLAG([-fno-ipa-icf], [HT_NO_ICF_CFLAGS])
])

dnl HT_IF_FLAG(FLAG, VARIABLE): VARIABLE is FLAG if the compiler knows it, else empty.
AC_DEFUN([HT_IF_FLAG], [
ht_save_CFLAGS=$CFLAGS
CFLAGS="-Werror $1"
AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])], [$2="$1"], [$2=])
CFLAGS=$ht_save_CFLAGS
AC_SUBST([$2])
])

AC_DEFUN([HT_SUMMARY], [
AC_MSG_NOTICE([
  heaptap $VERSION for $HT_ARCH
    compiler    $CC $CFLAGS $HT_CFLAGS
    asserts     $enable_asserts, fault points $enable_faults, -Werror $enable_werror
    sanitizers  asan $enable_asan, ubsan $enable_ubsan, tsan $enable_tsan
    portable    $enable_portable
    unit tests  $have_check])
])
