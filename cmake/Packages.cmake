# The Debian packages, by cpack: `./dev package`, or `cpack` in build/package. One for each component of
# cmake/Install.cmake; docs/decisions/0036-packages-by-cpack.md says why not debhelper. What is in a package and not in
# other installations (units, /etc, changelogs) is installed here.
if(NOT MESHBUS_PACKAGES)
  return()
endif()
set(from ${PROJECT_SOURCE_DIR}/cmake/packages)
set(made ${PROJECT_BINARY_DIR}/packaging)
set(library_package libmeshbus${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(full_version ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})

file(MAKE_DIRECTORY ${made})
execute_process(COMMAND gzip -9nc ${from}/changelog OUTPUT_FILE ${made}/changelog.Debian.gz COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND gzip -9nc ${PROJECT_SOURCE_DIR}/docs/changelog.md OUTPUT_FILE ${made}/changelog.gz
  COMMAND_ERROR_IS_FATAL ANY)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME meshbus)
set(CPACK_PACKAGE_CONTACT "meshbus maintainers <maintainers@meshbus.example>")
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_SOURCE_DIR}/build/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES OFF)  # what the packages of debug information take away is taken away by them
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/lib)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS OFF)
set(CPACK_DEBIAN_COMPRESSION_TYPE gzip)  # finish packs them again, by xz
set(CPACK_PRE_BUILD_SCRIPTS ${from}/compress.cmake)

# meshbus_package(COMPONENT NAME SECTION SUMMARY PARAGRAPH [DEBUG] [DEPENDS ...] [SUGGESTS ...] [CONTROL ...])
set(CPACK_COMPONENTS_ALL "")
macro(meshbus_package component name section summary paragraph)
  cmake_parse_arguments(arg "DEBUG;ALL_ARCHITECTURES" "" "DEPENDS;RECOMMENDS;SUGGESTS;CONTROL" ${ARGN})
  string(TOUPPER ${component} upper)
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "${summary}\n${paragraph}")
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section})
  foreach(field DEPENDS RECOMMENDS SUGGESTS)
    string(REPLACE ";" ", " CPACK_DEBIAN_${upper}_PACKAGE_${field} "${arg_${field}}")
  endforeach()
  set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA ${arg_CONTROL})
  set(CPACK_DEBIAN_${upper}_DEBUGINFO_PACKAGE ${arg_DEBUG})
  if(arg_ALL_ARCHITECTURES)
    set(CPACK_DEBIAN_${upper}_PACKAGE_ARCHITECTURE all)
    set(CPACK_DEBIAN_${upper}_PACKAGE_SHLIBDEPS OFF)
  endif()
  install(FILES ${from}/copyright ${made}/changelog.Debian.gz ${made}/changelog.gz
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name} COMPONENT ${component})
  if(EXISTS ${from}/lintian/${name})
    install(FILES ${from}/lintian/${name} DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides
      COMPONENT ${component})
  endif()
endmacro()

set(what "meshbus launches processes over many hosts, gives each an address, passes messages between them, watches \
them, and leaves none behind.")
set(own_scripts ${from}/scripts/postinst ${from}/scripts/prerm ${from}/scripts/postrm ${made}/conffiles)
file(WRITE ${made}/conffiles "/etc/default/meshbus-controller\n/etc/default/meshbus-host\n/etc/meshbus/config\n")
meshbus_package(programs meshbus net "launcher and supervisor of meshes of processes"
  "${what}\nThis package has the meshbus command, the programs of a host, a controller, and units of systemd for both."
  DEBUG DEPENDS adduser RECOMMENDS openssh-client SUGGESTS meshbus-mpi meshbus-doc
  CONTROL ${own_scripts})
if(TARGET meshbus-mpi-pmix)
  meshbus_package(mpi meshbus-mpi net "PMIx server of meshbus, for Open MPI programs"
    "${what}\nThis package lets meshbus run start programs of Open MPI (--mpi=pmix). Programs of MPICH need package \
meshbus only." DEBUG DEPENDS "meshbus (= ${full_version})")
endif()
meshbus_package(libraries ${library_package} libs "libraries of meshbus, for programs in C++"
  "${what}\nThis package has the shared libraries for launchers (client), for programs that run in a mesh (proc), \
and for hosts inside of a launcher (local)." DEBUG RECOMMENDS meshbus
  CONTROL ${from}/triggers ${made}/shlibs)
string(CONCAT shlibs "libmeshbus_client ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} ${library_package}\n"
  "libmeshbus_local ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} ${library_package}\n"
  "libmeshbus_proc ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} ${library_package}\n")
file(WRITE ${made}/shlibs "${shlibs}")
file(CHMOD ${made}/shlibs ${made}/conffiles PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
meshbus_package(development libmeshbus-dev libdevel "headers of meshbus, for programs in C++"
  "${what}\nThis package has headers, files for CMake and pkg-config, and the schemas of the protocol."
  DEPENDS "${library_package} (= ${full_version})" libexpected-dev SUGGESTS meshbus-doc)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SHLIBDEPS OFF)
meshbus_package(python python3-meshbus python "meshes of processes from Python"
  "${what}\nThis package has the Python module meshbus: launchers, scripts as ranks, actors." DEBUG
  DEPENDS "python3 (>= 3.11~)" "python3 (<< 3.12)" python3-cloudpickle "meshbus (= ${full_version})"
  SUGGESTS python3-numpy
  CONTROL ${from}/scripts/python/postinst ${from}/scripts/python/prerm)
meshbus_package(documentation meshbus-doc doc "documentation and examples of meshbus"
  "${what}\nThis package has the guide, the reference, and examples in C++ and Python." ALL_ARCHITECTURES
  SUGGESTS libmeshbus-dev python3-meshbus)

install(FILES ${from}/systemd/meshbus-host.service ${from}/systemd/meshbus-controller.service
  DESTINATION lib/systemd/system COMPONENT programs)
install(FILES ${from}/config DESTINATION /etc/meshbus COMPONENT programs)
foreach(name meshbus-host meshbus-controller)
  install(FILES ${from}/${name}.default DESTINATION /etc/default RENAME ${name} COMPONENT programs)
endforeach()
install(FILES ${from}/man/meshbus-controller.8 DESTINATION ${CMAKE_INSTALL_MANDIR}/man8 COMPONENT programs)
file(CREATE_LINK meshbus-roles.1.gz ${made}/meshbus-mpi-pmix.1.gz SYMBOLIC)
if(TARGET meshbus-mpi-pmix)
  install(FILES ${made}/meshbus-mpi-pmix.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT mpi)
endif()
install(FILES ${from}/man/meshbus-roles.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT programs)

include(CPack)
