// Everything that travels or is stored, against the bytes that releases wrote (tests/golden). These
// tests find what `flatc --conform` lets through: a field removed from the end, a struct that grew,
// a default that changed, a table that is gone. Further samples come from the schemas, by
// reflection (tests/unit/schemas/seeded.h).
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include <flatbuffers/idl.h>

#include "agent/warden/ready_report.h"
#include "agent/warden/run_dir.h"
#include "common/security/token.h"
#include "common/wire/control.h"
#include "common/wire/frame.h"
#include "meshbus/key.h"
#include "tests/support/body_union.h"
#include "tests/support/golden.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/schemas/seeded.h"
#include "wire/bootstrap_generated.h"
#include "wire/control_generated.h"
#include "wire/ledger_generated.h"
#include "wire/monitor_generated.h"
#include "wire/relay_generated.h"
#include "wire/replies_generated.h"
#include "wire/settings_generated.h"

using namespace meshbus;
using namespace meshbus::test;

namespace {

/// FlatBuffers changed the name after 2.0.
template <typename Parser>
bool generate_text(const Parser& parser, const void* table, const std::string& name,
                   std::string* text) {
  if constexpr (requires { GenTextFromTable(parser, table, name, text); }) {
    return GenTextFromTable(parser, table, name, text) == nullptr;
  } else {
    return GenerateTextFromTable(parser, table, name, text);
  }
}

/// The schemas, read at run time: says what bytes mean without the generated code.
class Schemas {
 public:
  explicit Schemas(const std::string& folder) {
    parser_.opts.strict_json = true;
    parser_.opts.indent_step = 1;
    const char* includes[] = {folder.c_str(), nullptr};
    for (const std::string& file : {folder + "/control.fbs", folder + "/relay.fbs",
                                    folder + "/replies.fbs", folder + "/settings.fbs"}) {
      // Release 0.1 has only the first.
      if (!std::filesystem::exists(file)) continue;
      const bool is_read = parser_.Parse(read_file(file).c_str(), includes, file.c_str());
      INFO(parser_.error_);
      REQUIRE(is_read);
    }
  }
  const flatbuffers::Parser& parser() const { return parser_; }
  const flatbuffers::StructDef& find(const std::string& name) const {
    const auto* found = parser_.LookupStruct("meshbus.wire." + name);
    REQUIRE(found != nullptr);
    return *found;
  }
  /// The bytes of such a table, from its JSON.
  std::string bytes(const std::string& name, const std::string& json) {
    REQUIRE(parser_.SetRootType(("meshbus.wire." + name).c_str()));
    const bool is_read = parser_.Parse(json.c_str());
    INFO(parser_.error_);
    REQUIRE(is_read);
    return {reinterpret_cast<const char*>(parser_.builder_.GetBufferPointer()),
            parser_.builder_.GetSize()};
  }
  std::string text(const void* table, const std::string& name) const {
    std::string text;
    REQUIRE(generate_text(parser_, table, "meshbus.wire." + name, &text));
    return text.ends_with('\n') ? text : text + '\n';
  }

 private:
  flatbuffers::Parser parser_;
};

Schemas& schemas() {
  static Schemas current(source_dir() + "/schemas");
  return current;
}

/// A frame as this build writes it.
std::string frame_bytes(bool is_link) {
  const auto envelope = [](wire::Kind kind, std::uint32_t port) {
    return wire::Envelope(1, 2, 3, 4, 5, 6, 0, port, kind, wire::Lane::data, 7, wire::Role::operate,
                          kFlagNoReturn);
  };
  FrameWriter writer(wire::Lane::data, is_link);
  writer.add(envelope(wire::Kind::message, 9), "12345");
  const wire::CallHeader header(0x0102030405060708, 5000, wire::ErrorCode::call_error, 0x0a0b);
  writer.add(envelope(wire::Kind::error, 10),
             std::string(reinterpret_cast<const char*>(&header), sizeof header) + "it failed!");
  if (!is_link) writer.add(envelope(wire::Kind::message, 11), std::string(kInlineLimit + 1, 'x'));
  Frame frame = writer.finish();
  frame.set_credit(0x3132333435363738);
  if (is_link) frame.set_link(0x4142434445464748, 0x5152535455565758);
  return std::string(frame.parts.front().view());
}

/// Frames and what is in them.
std::string frame_meaning(const Schemas& schemas, const std::string& bytes) {
  std::vector<MessagePart> parts;
  parts.emplace_back(bytes.data(), bytes.size());
  const auto* data = parts.front().data();
  std::size_t at = sizeof(wire::FrameHeader);
  std::string text = "FrameHeader " + schemas.text(data, "FrameHeader");
  wire::FrameHeader header;
  std::memcpy(&header, data, sizeof header);
  if ((header.flags() & kFrameFlagLink) != 0) {
    text += "LinkHeader " + schemas.text(data + at, "LinkHeader");
    at += sizeof(wire::LinkHeader);
  }
  for (int i = 0; i < header.count(); ++i) {
    wire::Envelope envelope;
    REQUIRE(bytes.size() >= at + sizeof envelope);
    std::memcpy(&envelope, data + at, sizeof envelope);
    text += "Envelope " + schemas.text(data + at, "Envelope");
    at += sizeof envelope;
    if ((envelope.flags() & kFlagDetached) != 0) continue;
    std::string body(data + at, envelope.length());
    if (envelope.kind() == wire::Kind::error) {
      text += "CallHeader " + schemas.text(data + at, "CallHeader");
      body.erase(0, sizeof(wire::CallHeader));
    }
    text += "body \"" + body + "\"\n";
    at += (envelope.length() + 7) & ~7U;
  }
  CHECK(at == bytes.size());
  return text;
}

/// "HostState" of "HostState.2": a message, a frame, or a table that is a whole by itself.
std::string kind_of(const std::string& name) {
  return name.substr(0, name.find('.'));
}

bool is_frame(const std::string& name) {
  return name == "Frame" || name == "LinkFrame";
}

/// The bytes of a table as generated code reads and writes them again.
template <typename Table>
std::string rewrite_table(const std::string& bytes, const char* identifier) {
  flatbuffers::Verifier verifier(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  REQUIRE(verifier.VerifyBuffer<Table>(nullptr));
  typename Table::NativeTableType native;
  flatbuffers::GetRoot<Table>(bytes.data())->UnPackTo(&native);
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(Table::Pack(builder, &native), identifier);
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

struct RootTable {
  std::string (*rewrite)(const std::string& bytes, const char* identifier);
  const char* identifier = nullptr;
};

/// The tables that are a whole by themselves, besides Control.
const std::map<std::string, RootTable>& root_tables() {
  static const std::map<std::string, RootTable> tables{
      {"Bootstrap", {rewrite_table<wire::Bootstrap>}},
      {"CastHead", {rewrite_table<wire::CastHead>}},
      {"CollectAnswers", {rewrite_table<wire::CollectAnswers>}},
      {"Collected", {rewrite_table<wire::Collected>}},
      {"DetachedCast", {rewrite_table<wire::DetachedCast>}},
      {"LedgerEntry", {rewrite_table<wire::LedgerEntry>}},
      {"MonitorEvent", {rewrite_table<wire::MonitorEvent>, "MBM1"}},
      {"PartialReply", {rewrite_table<wire::PartialReply>}},
      {"PassOn", {rewrite_table<wire::PassOn>}},
      {"SettingsAnswer", {rewrite_table<wire::SettingsAnswer>}},
      {"SettingsCall", {rewrite_table<wire::SettingsCall>}},
      {"StatusMesh", {rewrite_table<wire::StatusMesh>}},
      {"TapBatch", {rewrite_table<wire::TapBatch>, "MBT1"}},
  };
  return tables;
}

/// The name of the table that the bytes of this kind are.
std::string table_of(const std::string& kind) {
  return root_tables().contains(kind) ? kind : "Control";
}

/// What bytes of that kind mean.
std::string meaning(const Schemas& schemas, const std::string& kind, const std::string& bytes) {
  if (is_frame(kind)) return frame_meaning(schemas, bytes);
  return schemas.text(flatbuffers::GetRoot<char>(bytes.data()), table_of(kind));
}

std::string write(const wire::Control& control) {
  wire::ControlT native;
  control.UnPackTo(&native);
  return encode_union({native.id, native.deadline_ms, native.is_answer}, native.body);
}

/// What this build writes after it has read the bytes of that kind; a frame is built anew.
std::string rewrite(const std::string& kind, const std::string& bytes) {
  if (is_frame(kind)) return frame_bytes(kind == "LinkFrame");
  if (const auto found = root_tables().find(kind); found != root_tables().end())
    return found->second.rewrite(bytes, found->second.identifier);
  const auto control = ControlMessage::decode(bytes);
  REQUIRE(control.has_value());
  CHECK(control->body_name() == kind);
  return write(**control);
}

/// Bytes of that kind with every field set, seeded.
std::string seeded(const std::string& kind, std::uint32_t seed) {
  SeededValues values(seed);
  values.choose("body", kind);
  const auto table = table_of(kind);
  const auto bytes = schemas().bytes(table, values.table(schemas().find(table)));
  // As generated code writes them, with the identifier.
  if (table == "Control") return write(*flatbuffers::GetRoot<wire::Control>(bytes.data()));
  const auto& root = root_tables().at(kind);
  return root.rewrite(bytes, root.identifier);
}

/// Everything but frames.
std::vector<std::string> all_kinds() {
  std::vector<std::string> kinds;
  for (const auto body : wire::EnumValuesBody()) {
    if (body != wire::Body::NONE) kinds.emplace_back(wire::EnumNameBody(body));
  }
  for (const auto& [name, table] : root_tables()) kinds.push_back(name);
  return kinds;
}

/// What is newer than the last release.
constexpr const char* kUnreleased = "unreleased";

std::map<std::string, Golden> golden_by_name() {
  std::map<std::string, Golden> all;
  for (auto& golden : read_golden()) {
    const auto name = golden.name;
    INFO(name);
    CHECK(all.emplace(name, std::move(golden)).second);
  }
  return all;
}

/// Notes every field that is set in a table, and in those that it refers to, as "Table.field".
void note_fields(const flatbuffers::StructDef& definition, const flatbuffers::Table& table,
                 std::set<std::string>& seen) {
  for (const auto* field : definition.fields.vec) {
    const auto offset = field->value.offset;
    if (!table.CheckField(offset)) continue;
    seen.insert(definition.name + "." + field->name);
    const auto& type = field->value.type;
    const bool is_table = type.struct_def != nullptr && !type.struct_def->fixed;
    if (type.base_type == flatbuffers::BASE_TYPE_UNION) {
      const auto member = table.GetField<std::uint8_t>(
          static_cast<flatbuffers::voffset_t>(offset - sizeof(flatbuffers::voffset_t)), 0);
      const auto* value = type.enum_def->ReverseLookup(member);
      REQUIRE(value != nullptr);
      note_fields(*value->union_type.struct_def,
                  *table.GetPointer<const flatbuffers::Table*>(offset), seen);
    } else if (type.base_type == flatbuffers::BASE_TYPE_STRUCT && is_table) {
      note_fields(*type.struct_def, *table.GetPointer<const flatbuffers::Table*>(offset), seen);
    } else if (type.base_type == flatbuffers::BASE_TYPE_VECTOR && is_table) {
      const auto* list =
          table.GetPointer<const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::Table>>*>(
              offset);
      for (const auto* element : *list) note_fields(*type.struct_def, *element, seen);
    }
  }
}

/// What `golden` means, with the names that today's schemas have for the fields of its release
/// (schemas/released/0.1/renamed.sed; the text form of a struct needs a rule of its own).
std::string meaning_today(const Golden& golden) {
  if (golden.release != "0.1") return golden.meaning;
  static const std::regex kReports("\"certificates\":");
  static const std::regex kRestarts("(\"step\": [^,]*,\\s*)\"reserved\":");
  return std::regex_replace(std::regex_replace(golden.meaning, kReports, "\"exit_reports\":"),
                            kRestarts, "$1\"restarts\":");
}

}  // namespace

TEST_CASE(
    "schema: this build reads and writes the bytes that releases wrote, and they mean the same") {
  INFO("what a release has written never changes: schemas/released/README.md");
  for (const auto& [name, golden] : golden_by_name()) {
    CAPTURE(name);
    const auto kind = kind_of(name);
    const auto expected = meaning_today(golden);
    CHECK(meaning(schemas(), kind, golden.bytes) == expected);
    const auto again = rewrite(kind, golden.bytes);
    CHECK(meaning(schemas(), kind, again) == expected);
    // Another FlatBuffers may arrange the same contents in another order.
    if (FLATBUFFERS_VERSION_MAJOR == 2 || is_frame(kind)) CHECK((again == golden.bytes));
  }
}

TEST_CASE(
    "schema: a reader with a release's schemas reads what this build writes as that release meant "
    "it") {
  std::map<std::string, Schemas> released;
  for (const auto& [name, golden] : golden_by_name()) {
    if (golden.release == kUnreleased) continue;
    CAPTURE(name);
    const auto old =
        released.try_emplace(golden.release, source_dir() + "/schemas/released/" + golden.release)
            .first;
    const auto kind = kind_of(name);
    CHECK(meaning(old->second, kind, rewrite(kind, golden.bytes)) == golden.meaning);
  }
}

TEST_CASE("schema: generated code reads and writes every field of every table, with any value") {
  for (const auto& kind : all_kinds()) {
    for (const std::uint32_t seed : {1U, 2U, 3U}) {
      CAPTURE(kind);
      CAPTURE(seed);
      const auto bytes = seeded(kind, seed);
      CHECK(meaning(schemas(), kind, rewrite(kind, bytes)) == meaning(schemas(), kind, bytes));
    }
  }
}

TEST_CASE("schema: every message, and every field of every table, is in the golden bytes") {
  std::map<std::string, int> count;
  std::set<std::string> seen;
  for (const auto& [name, golden] : golden_by_name()) {
    const auto kind = kind_of(name);
    ++count[kind];
    if (!is_frame(kind))
      note_fields(schemas().find(table_of(kind)),
                  *flatbuffers::GetRoot<flatbuffers::Table>(golden.bytes.data()), seen);
  }
  for (const auto& kind : all_kinds()) {
    // Several seeds, because each one chooses one member of an inner union.
    for (std::uint32_t seed = 1; seed <= 32; ++seed) {
      const auto bytes = seeded(kind, seed);
      std::set<std::string> fields;
      note_fields(schemas().find(table_of(kind)),
                  *flatbuffers::GetRoot<flatbuffers::Table>(bytes.data()), fields);
      if (count[kind] > 0 && std::includes(seen.begin(), seen.end(), fields.begin(), fields.end()))
        continue;
      CAPTURE(kind);
      if (std::getenv("ADD_GOLDEN") == nullptr) {
        FAIL_CHECK(
            "golden bytes are missing, or none set one of its fields. When these are new: "
            "ADD_GOLDEN=1 ./dev test --filter schema (schemas/released/README.md)");
        break;
      }
      const auto name = ++count[kind] == 1 ? kind : kind + "." + std::to_string(count[kind]);
      const auto path = add_golden({kUnreleased, name, meaning(schemas(), kind, bytes), bytes});
      FAIL_CHECK(path << " is written: read what it says the bytes mean, commit it, and run the "
                         "test again");
      seen.merge(fields);
    }
  }
  for (const auto* definition : schemas().parser().structs_.vec) {
    if (definition->fixed) continue;
    for (const auto* field : definition->fields.vec) {
      CAPTURE(definition->name + "." + field->name);
      CHECK((field->deprecated || seen.contains(definition->name + "." + field->name)));
    }
  }
}

TEST_CASE("schema: keys and tokens are computed as releases computed them") {
  CHECK(key_of("tcp:h1:7420,trainers-13Se1Maqzryj-7") == 0x084201c14df239e4);
  const auto token = TokenMaker(std::string(TokenMaker::kSecretSize, 's'))
                         .make("tcp:h1:7420,trainers-13Se1Maqzryj-7", 4711);
  std::ostringstream hex;
  for (const auto byte : token)
    hex << "0123456789abcdef"[byte >> 4] << "0123456789abcdef"[byte & 15];
  CHECK(hex.str() == "29c73815512d437a5ee0097538efc86caac620b9f92d9974176906b3e4658bb2");
}

TEST_CASE(
    "schema: what a warden leaves for the next one, and tells its launcher, reads as releases "
    "wrote it") {
  const TempDir base;
  const auto directory = warden::make_host_dir(base.path().string());
  REQUIRE(directory.has_value());
  REQUIRE(warden::record_host(*directory, "/sys/fs/cgroup/meshbus-" + directory->name,
                              4611686018427387981)
              .has_value());
  CHECK(read_file(directory->path + "/lock") ==
        "pid " + std::to_string(::getpid()) +
            "\nmark 4611686018427387981\ncgroup /sys/fs/cgroup/meshbus-" + directory->name + "\n");
  // Members may be added (pids_limit was), none may go or change.
  CHECK(warden::to_json_line({.host = "unix:/a \"b\"",
                              .containment = "cgroup v2",
                              .containment_reason = {},
                              .pids_reason = {},
                              .run_dir = "/run/x",
                              .pid = 1,
                              .broker_pid = 2,
                              .agent_pid = 3,
                              .keeper_pid = 4}) ==
        R"({"host":"unix:/a \"b\"","pid":1,"containment":"cgroup v2","pids_limit":0,)"
        R"("run_dir":"/run/x",)"
        R"("monitor":"unix:/run/x/monitor","broker_pid":2,"agent_pid":3,"keeper_pid":4})"
        "\n");
  CHECK(warden::error_json_line("no\n") == "{\"error\":\"no\\u000a\"}\n");
}
