# Writes OUTPUT, a header that declares every enum, struct and table of SCHEMAS, and says which tag of the union Body a
# table has.
#   cmake -DOUTPUT=forward.h "-DSCHEMAS=a.fbs;b.fbs" -P Forward.cmake
set(enums "")
set(types "")
set(tags "")
foreach(schema IN LISTS SCHEMAS)
  file(READ ${schema} text)
  string(REGEX REPLACE "//[^\n]*" "" text "${text}")
  string(REPLACE ";" "," text "${text}")
  string(REGEX MATCHALL "(^|\n)enum [A-Za-z]+ : [a-z]+" found "${text}")
  foreach(one IN LISTS found)
    string(REGEX REPLACE "\n?enum ([A-Za-z]+) : ([a-z]+)" "\\1;\\2" one "${one}")
    list(GET one 0 name)
    list(GET one 1 kind)
    if(kind STREQUAL "ubyte")
      set(kind std::uint8_t)
    elseif(kind STREQUAL "ushort")
      set(kind std::uint16_t)
    elseif(kind STREQUAL "uint")
      set(kind std::uint32_t)
    else()
      message(FATAL_ERROR "${schema}: enum ${name} : ${kind} is a kind that Forward.cmake does not know")
    endif()
    string(APPEND enums "enum class ${name} : ${kind};\n")
  endforeach()
  string(REGEX MATCHALL "(^|\n)(table|struct) [A-Za-z]+" found "${text}")
  foreach(one IN LISTS found)
    string(REGEX REPLACE "\n?(table|struct) ([A-Za-z]+)" "\\1;\\2" one "${one}")
    list(GET one 0 kind)
    list(GET one 1 name)
    string(APPEND types "struct ${name};\n")
    if(kind STREQUAL "table")
      string(APPEND types "struct ${name}T;\n")
    endif()
  endforeach()
  if(text MATCHES "\nunion Body {([^}]*)}")
    string(REGEX MATCHALL "[A-Za-z]+" members "${CMAKE_MATCH_1}")
    set(value 0)
    foreach(member IN LISTS members)
      math(EXPR value "${value} + 1")
      string(APPEND tags "template <>\nstruct BodyTag<${member}> {\n")
      string(APPEND tags "  static constexpr Body value = Body{${value}};\n};\n")
    endforeach()
  endif()
endforeach()
if(tags STREQUAL "")
  message(FATAL_ERROR "none of ${SCHEMAS} has the union Body")
endif()
file(WRITE ${OUTPUT} "// Made from the schemas by Forward.cmake: declarations alone.
#pragma once

#include <cstdint>

namespace meshbus::wire {

enum class Body : std::uint8_t;
${enums}
${types}
/// The tag of a table in the union of control messages.
template <typename Table>
struct BodyTag;
${tags}
}  // namespace meshbus::wire
")
