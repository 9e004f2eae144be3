# meshbus_library(NAME SOURCES...): a static library meshbus_NAME with the alias meshbus::NAME. Sources are included by
# their path from the top of the tree ("common/loop/reactor.h"); public headers, in the folder include/ beside the
# sources, as "meshbus/name.h". Only what these headers declare is visible outside of a shared library
# (cmake/Install.cmake); a friend that only its class declares needs [[gnu::visibility("default")]] at its definition.
function(meshbus_library name)
  add_library(meshbus_${name} STATIC ${ARGN})
  add_library(meshbus::${name} ALIAS meshbus_${name})
  target_include_directories(meshbus_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
  if(IS_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/include)
    target_include_directories(meshbus_${name} PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>)
  endif()
  target_link_libraries(meshbus_${name} PRIVATE $<BUILD_INTERFACE:meshbus_settings>)
  set_target_properties(meshbus_${name} PROPERTIES
    EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()

# meshbus_small_sources(NAME SOURCES...): more sources of the library NAME, which release compiles for size. What the
# library is linked with is said before.
function(meshbus_small_sources name)
  set(small meshbus_${name}_small)
  add_library(${small} OBJECT ${ARGN})
  get_target_property(folders meshbus_${name} INCLUDE_DIRECTORIES)
  get_target_property(libraries meshbus_${name} LINK_LIBRARIES)
  target_include_directories(${small} PRIVATE ${folders})
  target_link_libraries(${small} PRIVATE ${libraries})
  set_target_properties(${small} PROPERTIES
    POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  meshbus_compile_small(${small})
  target_sources(meshbus_${name} PRIVATE $<TARGET_OBJECTS:${small}>)
endfunction()

# meshbus_compile_small(TARGET...): release compiles it for size: what people wait for in it is other processes, and
# g++ takes a fifth less time.
function(meshbus_compile_small)
  foreach(target ${ARGN})
    # With -Os g++ 12 takes an empty std::optional for an uninitialised one.
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-Os>
      $<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:-Wno-maybe-uninitialized>)
  endforeach()
endfunction()

# meshbus_program(NAME SOURCES...): an executable that ends up in build/PRESET/bin.
function(meshbus_program name)
  add_executable(${name} ${ARGN})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE meshbus_settings)
  if(MESHBUS_SANITIZE MATCHES "thread")
    target_sources(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/tsan/options.cpp)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/tests/tsan/options.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON
      COMPILE_DEFINITIONS MESHBUS_TSAN_REPORTS="${PROJECT_BINARY_DIR}/reports")
  endif()
endfunction()
