# Each library that a program loads takes time at each of its starts (decision 78). So those of logging, job files and
# of `meshbus top`, and the C++ runtime, are parts of our programs. In Debian's packages, where all programs together
# have at most 15 MB, the last two are Debian's.
add_library(meshbus_spdlog INTERFACE)
target_link_libraries(meshbus_spdlog INTERFACE spdlog::spdlog_header_only)
target_compile_definitions(meshbus_spdlog INTERFACE FMT_HEADER_ONLY=1)

add_library(meshbus_toml INTERFACE)
get_target_property(toml_headers tomlplusplus::tomlplusplus INTERFACE_INCLUDE_DIRECTORIES)
target_include_directories(meshbus_toml SYSTEM INTERFACE ${toml_headers})

find_library(CURSES_ARCHIVE libncursesw.a)
find_library(TINFO_ARCHIVE libtinfo.a)
if(CURSES_ARCHIVE AND TINFO_ARCHIVE AND NOT MESHBUS_PACKAGES)
  set(CURSES_LIBRARIES ${CURSES_ARCHIVE} ${TINFO_ARCHIVE})
endif()

# meshbus_start_quickly(PROGRAM...): each has the C++ runtime in it, which takes as long to load as all the rest. Only
# for programs that need no other library of C++.
function(meshbus_start_quickly)
  foreach(target ${ARGN})
    if(NOT MESHBUS_SANITIZE AND NOT MESHBUS_PACKAGES)
      target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc)
    endif()
  endforeach()
endfunction()
