# What every target of ours is compiled with. It lives on the interface target meshbus_settings; nothing here is global
# but the language standard and the output folders.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

option(MESHBUS_TESTS "build the tests" ON)
option(MESHBUS_WERROR "warnings are errors" OFF)
option(MESHBUS_FUZZ "build the fuzz targets; needs clang" OFF)
set(MESHBUS_SANITIZE "" CACHE STRING "sanitizers, as in -fsanitize=; empty for none")

add_library(meshbus_settings INTERFACE)
target_compile_options(meshbus_settings INTERFACE -Wall -Wextra -Wpedantic -Wconversion
  -Wsign-conversion -Wshadow -Wnon-virtual-dtor)
if(MESHBUS_WERROR)
  target_compile_options(meshbus_settings INTERFACE -Werror)
endif()
if(MESHBUS_SANITIZE)
  target_compile_options(meshbus_settings INTERFACE -fsanitize=${MESHBUS_SANITIZE}
    -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(meshbus_settings INTERFACE -fsanitize=${MESHBUS_SANITIZE})
endif()
if(MESHBUS_FUZZ)
  target_compile_options(meshbus_settings INTERFACE -fsanitize=fuzzer-no-link)
endif()
# UBSan describes every place that it checks: a million relocations, if a program may be anywhere. So preset dev links
# with -no-pie: a quarter of the time goes that `meshbus` takes to start and end, which tests do thousands of times.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND MESHBUS_SANITIZE MATCHES "undefined")
  # clang reads a vptr through a pipe. Without a free descriptor, which tests bring about, that is a
  # false alarm. Preset gcc has this check.
  target_compile_options(meshbus_settings INTERFACE -fno-sanitize=vptr)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # libstdc++ 12's stable_sort uses what is deprecated; g++ still reports ours.
  target_compile_options(meshbus_settings INTERFACE -Wno-deprecated-declarations)
endif()

# Sources are named from the top of the tree, in debug information and messages alike: what is built does not tell
# where, and ccache finds what another clone compiled (it passes paths below CCACHE_BASEDIR, which ./dev sets, relative
# to the build folder).
file(RELATIVE_PATH up ${CMAKE_BINARY_DIR} ${PROJECT_SOURCE_DIR})
target_compile_options(meshbus_settings INTERFACE -ffile-prefix-map=${PROJECT_SOURCE_DIR}/= -ffile-prefix-map=${up}=)

# The presets compile 24 sources of a target as one (CMAKE_UNITY_BUILD), since most of the time goes into headers and
# templates that they share: 1.4 GB per compiler, three eighths less CPU than with each alone, three tenths less than
# with eight at a time. So what sources keep in unnamed namespaces must not clash within a target.
# -DCMAKE_UNITY_BUILD=OFF compiles each alone; after a change of one source -DCMAKE_UNITY_BUILD_BATCH_SIZE=4 compiles
# less.

# By default g++ collects its garbage every few megabytes, which is an eighth of its time here. With 4 GB for each CPU
# it may keep all of it: 1.8 GB at most.
cmake_host_system_information(RESULT memory QUERY TOTAL_PHYSICAL_MEMORY)
cmake_host_system_information(RESULT cpus QUERY NUMBER_OF_LOGICAL_CORES)
math(EXPR memory_per_cpu "${memory} / ${cpus}")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND memory_per_cpu GREATER 4000)
  target_compile_options(meshbus_settings INTERFACE "SHELL:--param ggc-min-heapsize=1000000")
endif()

# Each library that a program needs is loaded at each start, used or not.
target_link_options(meshbus_settings INTERFACE LINKER:--as-needed)

# ccache and mold make rebuilds quick; neither is needed.
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()
find_program(MOLD mold)
if(MOLD)
  target_link_options(meshbus_settings INTERFACE -fuse-ld=mold)
  # Templates make the same code many times; folded, the programs are a twentieth smaller. Nothing here compares the
  # addresses of functions. Only for packages: a backtrace may name the twin.
  if(MESHBUS_PACKAGES)
    target_link_options(meshbus_settings INTERFACE $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-Wl,--icf=all>)
  endif()
endif()
