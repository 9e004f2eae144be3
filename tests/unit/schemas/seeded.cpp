#include "tests/unit/schemas/seeded.h"

#include <iterator>
#include <stdexcept>

namespace meshbus::test {
namespace {

using flatbuffers::BaseType;

std::string quoted(const std::string& text) {
  return '"' + text + '"';
}

}  // namespace

void SeededValues::choose(const std::string& field, const std::string& member) {
  chosen_field_ = field;
  chosen_member_ = member;
}

std::uint64_t SeededValues::number(std::uint64_t least, std::uint64_t most) {
  return std::uniform_int_distribution<std::uint64_t>(least, most)(random_);
}

std::string SeededValues::text() {
  static constexpr const char* kWords[] = {
      "trainers-13Se1Maqzryj",  "tcp:h1:7420",       "unix:/run/user/0/meshbus/host-5be2a0c1/bus",
      "tcp:h1:7420,controller", "killed by SIGSEGV", "\u00e9"};
  return quoted(kWords[number(0, std::size(kWords) - 1)] + std::to_string(number(0, 999)));
}

std::string SeededValues::scalar(const flatbuffers::Type& type) {
  if (type.enum_def != nullptr) {
    const auto& values = type.enum_def->Vals();
    // The first value mostly is the default, which is not written.
    const auto* chosen = values[number(values.size() > 1 ? 1 : 0, values.size() - 1)];
    return std::to_string(chosen->GetAsInt64());
  }
  switch (type.base_type) {
    case BaseType::BASE_TYPE_BOOL: return "true";
    case BaseType::BASE_TYPE_CHAR: return std::to_string(-static_cast<int>(number(1, 127)));
    case BaseType::BASE_TYPE_UCHAR: return std::to_string(number(1, UINT8_MAX));
    case BaseType::BASE_TYPE_SHORT: return std::to_string(-static_cast<int>(number(1, INT16_MAX)));
    case BaseType::BASE_TYPE_USHORT: return std::to_string(number(1, UINT16_MAX));
    case BaseType::BASE_TYPE_INT:
      return std::to_string(-static_cast<std::int64_t>(number(1, INT32_MAX)));
    case BaseType::BASE_TYPE_UINT: return std::to_string(number(1, UINT32_MAX));
    case BaseType::BASE_TYPE_LONG:
      return std::to_string(-static_cast<std::int64_t>(number(1, INT64_MAX)));
    case BaseType::BASE_TYPE_ULONG: return std::to_string(number(1, UINT64_MAX));
    case BaseType::BASE_TYPE_FLOAT:
    case BaseType::BASE_TYPE_DOUBLE: return std::to_string(number(1, 1000)) + ".25";
    default: throw std::logic_error("a scalar type that SeededValues does not know");
  }
}

std::string SeededValues::value(const flatbuffers::FieldDef& field, const flatbuffers::Type& type) {
  switch (type.base_type) {
    case BaseType::BASE_TYPE_STRING: return text();
    case BaseType::BASE_TYPE_STRUCT: return table(*type.struct_def);
    case BaseType::BASE_TYPE_VECTOR: {
      std::string list = '[' + value(field, type.VectorType());
      if (number(0, 1) == 1) list += ", " + value(field, type.VectorType());
      return list + ']';
    }
    default: return scalar(type);
  }
}

std::string SeededValues::table(const flatbuffers::StructDef& definition) {
  std::string all = "{";
  for (const auto* field : definition.fields.vec) {
    const auto& type = field->value.type;
    // The type of a union is written with its member.
    if (field->deprecated || type.base_type == BaseType::BASE_TYPE_UTYPE) continue;
    if (all.size() > 1) all += ", ";
    if (type.base_type != BaseType::BASE_TYPE_UNION) {
      all += quoted(field->name) + ": " + value(*field, type);
      continue;
    }
    const auto& members = type.enum_def->Vals();
    const auto* member = members[number(1, members.size() - 1)];
    if (const auto* chosen = type.enum_def->Lookup(chosen_member_);
        chosen != nullptr && field->name == chosen_field_)
      member = chosen;
    all += quoted(field->name + "_type") + ": " + quoted(member->name) + ", " +
           quoted(field->name) + ": " + table(*member->union_type.struct_def);
  }
  return all + '}';
}

}  // namespace meshbus::test
