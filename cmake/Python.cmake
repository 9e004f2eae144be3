# MESHBUS_PYTHON: the Python package. On where the compiled modules can be used: not under
# sanitizers, whose run-time library an ordinary interpreter does not have.
if(EXISTS /usr/bin/python3 AND NOT DEFINED Python_EXECUTABLE)
  set(Python_EXECUTABLE /usr/bin/python3 CACHE FILEPATH
    "the interpreter of the package: Debian's, which has the packages that it needs")
endif()
find_package(Python 3.11 QUIET COMPONENTS Interpreter Development.Module)
set(PYBIND11_NOPYTHON ON)
find_package(pybind11 2.10 QUIET CONFIG)
set(has_python OFF)
if(Python_FOUND AND pybind11_FOUND AND NOT MESHBUS_SANITIZE)
  set(has_python ON)
endif()
option(MESHBUS_PYTHON "build the Python package" ${has_python})
if(MESHBUS_PYTHON AND NOT (Python_FOUND AND pybind11_FOUND))
  message(FATAL_ERROR "MESHBUS_PYTHON needs Python 3.11 with its headers and pybind11 2.10: "
    "apt install python3-dev pybind11-dev")
endif()
set(MESHBUS_PYTHON_FOLDER lib/python3/dist-packages CACHE PATH
  "where the package is installed, below the prefix")
# What importlib.metadata and pytest know of an installed package, made of what a wheel has.
if(MESHBUS_PYTHON)
  set(dist_info ${CMAKE_CURRENT_SOURCE_DIR}/cmake/packages/dist_info.py)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${dist_info}
    ${CMAKE_CURRENT_SOURCE_DIR}/client/python/wheel.py)
  set(installer cmake)
  if(MESHBUS_PACKAGES)
    set(installer debian)
  endif()
  file(REMOVE_RECURSE ${PROJECT_BINARY_DIR}/python_metadata)
  execute_process(COMMAND_ERROR_IS_FATAL ANY
    COMMAND ${Python_EXECUTABLE} -B ${dist_info} ${PROJECT_VERSION} ${installer} ${PROJECT_BINARY_DIR}/python_metadata)
  install(DIRECTORY ${PROJECT_BINARY_DIR}/python_metadata/ DESTINATION ${MESHBUS_PYTHON_FOLDER} COMPONENT python)
endif()
