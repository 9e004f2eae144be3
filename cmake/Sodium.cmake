# meshbus_sodium: libsodium, whose Debian package has a pkg-config file and none for CMake.
find_path(SODIUM_INCLUDE_DIR sodium.h)
find_library(SODIUM_LIBRARY sodium)
mark_as_advanced(SODIUM_INCLUDE_DIR SODIUM_LIBRARY)
if(NOT SODIUM_INCLUDE_DIR OR NOT SODIUM_LIBRARY)
  message(FATAL_ERROR "libsodium is not found; install it (Debian: libsodium-dev) or set "
    "SODIUM_INCLUDE_DIR and SODIUM_LIBRARY")
endif()
add_library(meshbus_sodium INTERFACE)
target_include_directories(meshbus_sodium SYSTEM INTERFACE ${SODIUM_INCLUDE_DIR})
target_link_libraries(meshbus_sodium INTERFACE ${SODIUM_LIBRARY})
