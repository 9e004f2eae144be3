# meshbus_library(NAME SOURCES...): a static library meshbus_NAME with the alias meshbus::NAME.
# Sources are included by their path from the top of the tree ("common/reactor.h"); public headers as "meshbus/name.h".
function(meshbus_library name)
  add_library(meshbus_${name} STATIC ${ARGN})
  add_library(meshbus::${name} ALIAS meshbus_${name})
  target_include_directories(meshbus_${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(meshbus_${name} PRIVATE meshbus_settings)
  set_target_properties(meshbus_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
endfunction()

# meshbus_program(NAME SOURCES...): an executable that ends up in build/PRESET/bin.
function(meshbus_program name)
  add_executable(${name} ${ARGN})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE meshbus_settings)
endfunction()
