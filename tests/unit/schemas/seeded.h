#pragma once

#include <cstdint>
#include <random>
#include <string>

#include <flatbuffers/idl.h>

namespace meshbus::test {

/// Values for every field of a table, as the schemas describe it, drawn from a seed: no field has
/// its default, lists have one or two elements, and a member is chosen for each union. Equal seeds
/// give equal values for as long as the schemas do not change.
class SeededValues {
 public:
  explicit SeededValues(std::uint32_t seed) : random_(seed) {}
  /// Unions whose field has this name get this member, if they have it.
  void choose(const std::string& field, const std::string& member);
  /// The JSON object of such a table.
  std::string table(const flatbuffers::StructDef& definition);

 private:
  std::string value(const flatbuffers::FieldDef& field, const flatbuffers::Type& type);
  std::string scalar(const flatbuffers::Type& type);
  std::string text();
  std::uint64_t number(std::uint64_t least, std::uint64_t most);

  std::minstd_rand random_;
  std::string chosen_field_;
  std::string chosen_member_;
};

}  // namespace meshbus::test
