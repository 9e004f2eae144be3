# What `cmake --install` puts where, and how others find it: find_package(meshbus) and pkg-config. The tree that is
# installed may be moved.
#
#   bin/                     the programs; they find each other beside themselves
#   include/meshbus/         the public headers
#   lib/                     libmeshbus_client: launchers. libmeshbus_proc: programs that are mesh procs;
#                            it needs nothing but libsodium and FlatBuffers. libmeshbus_local: both,
#                            and hosts inside of a launcher. Static libraries come with those that they consist of.
#                            With BUILD_SHARED_LIBS they are three shared ones, each whole in itself: a
#                            program links client, or proc, or both, or local alone. Our own programs are
#                            linked statically either way.
#   lib/cmake, lib/pkgconfig how others find these
#   share/meshbus/schemas/   the protocol
#   share/meshbus/prometheus, grafana, openapi: alerts, a dashboard, the API of the controller's page
#   share/doc/meshbus/       README.md, SECURITY.md, docs/, examples/ and schemas/, as in the source tree
#   share/man/, share/bash-completion/, share/zsh/, share/fish/
#                            manual pages of all commands, and completions
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
option(BUILD_SHARED_LIBS "install shared libraries instead of static ones" OFF)

# meshbus_shared(NAME PARTS ... LINKS ...): what is to be installed as libmeshbus_NAME.so, made of the objects of static
# libraries.
function(meshbus_shared name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "PARTS;LINKS")
  list(TRANSFORM arg_PARTS REPLACE "(.+)" "$<TARGET_OBJECTS:meshbus_\\1>" OUTPUT_VARIABLE objects)
  foreach(part ${arg_PARTS})
    if(TARGET meshbus_${part}_small)
      list(APPEND objects $<TARGET_OBJECTS:meshbus_${part}_small>)
    endif()
  endforeach()
  add_library(meshbus_${name}_shared SHARED ${objects})
  target_link_libraries(meshbus_${name}_shared PRIVATE ${arg_LINKS} INTERFACE tl::expected)
  # Without meshbus_settings: its linker, mold 1.10, does not hide what the map says.
  target_link_options(meshbus_${name}_shared PRIVATE LINKER:--no-undefined LINKER:--as-needed
    LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/shared.map)
  if(MESHBUS_SANITIZE)
    target_link_options(meshbus_${name}_shared PRIVATE -fsanitize=${MESHBUS_SANITIZE})
  endif()
  set_target_properties(meshbus_${name}_shared PROPERTIES
    OUTPUT_NAME meshbus_${name} EXPORT_NAME ${name} LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/shared.map
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib LINKER_LANGUAGE CXX
    # Before 1.0 any release may change what the libraries look like to programs that link them.
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
endfunction()

if(BUILD_SHARED_LIBS)
  set(bus_links meshbus_sodium flatbuffers::flatbuffers_shared)
  meshbus_shared(proc PARTS mesh common proc LINKS ${bus_links} Threads::Threads)
  meshbus_shared(client PARTS mesh common config client
    LINKS ${bus_links} Threads::Threads)
  meshbus_shared(local PARTS mesh common config client proc keeper os host_agent broker local
    LINKS ${bus_links} cppzmq Threads::Threads)
  set(installed_libraries meshbus_client_shared meshbus_proc_shared meshbus_local_shared)
  set(used_libraries ${installed_libraries})
else()
  set(installed_libraries meshbus_client meshbus_proc meshbus_local meshbus_config meshbus_common meshbus_mesh
    meshbus_broker meshbus_host_agent meshbus_keeper meshbus_os)
  set(used_libraries meshbus_client meshbus_proc meshbus_local)
endif()
foreach(library IN LISTS used_libraries)
  target_compile_features(${library} INTERFACE cxx_std_20)
endforeach()

# Components: programs, mpi (what needs libpmix), libraries, development, python, documentation. cmake/Packages.cmake
# makes a Debian package of each.
install(TARGETS ${installed_libraries} EXPORT meshbusTargets
  LIBRARY COMPONENT libraries NAMELINK_COMPONENT development ARCHIVE COMPONENT development
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS meshbus meshbus-broker meshbus-agent meshbus-exporter meshbus-hands meshbus-keeper
  meshbus-controller meshbus-mpi meshbus-mpi-exec meshbus-tap meshbus-torch-exec COMPONENT programs)
if(TARGET meshbus-mpi-pmix)
  install(TARGETS meshbus-mpi-pmix COMPONENT mpi)
endif()
foreach(optional meshbus-stacks meshbus-topology)
  if(TARGET ${optional})
    install(TARGETS ${optional} COMPONENT programs)
  endif()
endforeach()
foreach(folder mesh common client client/local agent/proc)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder}/include/meshbus
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development FILES_MATCHING PATTERN "*.h")
endforeach()
file(GLOB schema_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/schemas/*.fbs)
file(GLOB json_schema_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/share/schemas/*.json)
install(FILES ${schema_files} ${json_schema_files} DESTINATION ${CMAKE_INSTALL_DATADIR}/meshbus/schemas
  COMPONENT development)
foreach(folder prometheus grafana openapi)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/share/${folder} DESTINATION ${CMAKE_INSTALL_DATADIR}/meshbus
    COMPONENT programs)
endforeach()
# Where only some targets were built there are none.
install(DIRECTORY ${PROJECT_BINARY_DIR}/share/ DESTINATION ${CMAKE_INSTALL_DATADIR} COMPONENT programs OPTIONAL
  PATTERN made EXCLUDE)
# As they lie in the source tree, so that links work. The examples' CMakeLists.txt finds the installed meshbus.
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CONTRIBUTING.md ${PROJECT_SOURCE_DIR}/SECURITY.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT documentation)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs ${PROJECT_SOURCE_DIR}/examples ${PROJECT_SOURCE_DIR}/schemas
  DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT documentation USE_SOURCE_PERMISSIONS
  PATTERN __pycache__ EXCLUDE PATTERN released EXCLUDE PATTERN CMakeLists.txt EXCLUDE)
install(FILES ${PROJECT_SOURCE_DIR}/examples/CMakeLists.txt
  DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT documentation)
if(NOT MESHBUS_PACKAGES)  # Debian has it in a place of its own
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT documentation)
endif()

# find_package(meshbus [COMPONENTS client proc local]) gives meshbus::client, meshbus::proc and meshbus::local.
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/meshbus)
install(EXPORT meshbusTargets NAMESPACE meshbus:: DESTINATION ${package_folder} COMPONENT development)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/meshbusConfig.cmake.in
  ${PROJECT_BINARY_DIR}/meshbusConfig.cmake
  INSTALL_DESTINATION ${package_folder} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/meshbusConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/meshbusConfig.cmake
  ${PROJECT_BINARY_DIR}/meshbusConfigVersion.cmake DESTINATION ${package_folder} COMPONENT development)

# pkg-config meshbus-client, meshbus-proc, meshbus-local. What static libraries need is everybody's to link, so it
# stands in Libs: no --static is needed, and with it one does not get what Debian's libzmq.pc adds then, which cannot be
# linked.
file(RELATIVE_PATH pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
function(meshbus_pkgconfig name description libs)
  if(BUILD_SHARED_LIBS)
    set(libs "")
  endif()
  configure_file(${PROJECT_SOURCE_DIR}/cmake/meshbus.pc.in ${PROJECT_BINARY_DIR}/meshbus-${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/meshbus-${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
    COMPONENT development)
endfunction()
set(base_flags -lmeshbus_common -lmeshbus_mesh)
set(wire_flags -lflatbuffers -lsodium -pthread)
string(JOIN " " client_flags -lmeshbus_config ${base_flags} ${wire_flags})
string(JOIN " " proc_flags ${base_flags} ${wire_flags})
string(JOIN " " local_flags -lmeshbus_client -lmeshbus_proc -lmeshbus_broker -lmeshbus_host_agent
  -lmeshbus_keeper -lmeshbus_os -lmeshbus_config ${base_flags} -lzmq ${wire_flags})
meshbus_pkgconfig(client "Launches, addresses and supervises meshes of processes" " ${client_flags}")
meshbus_pkgconfig(proc "For programs that are processes of a mesh" " ${proc_flags}")
meshbus_pkgconfig(local "Launchers with hosts and procs inside of their own process" " ${local_flags}")
