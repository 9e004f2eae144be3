// The bytes of everything that travels or is stored, against those that releases wrote
// (tests/golden). What `flatc --conform` lets through is found here: a field removed from the end,
// a struct that grew, a default that changed, a table that is gone.
#include <doctest/doctest.h>
#include <unistd.h>

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
#include "tests/unit/schemas/samples.h"
#include "wire/control_generated.h"
#include "wire/relay_generated.h"
#include "wire/replies_generated.h"
#include "wire/settings_generated.h"

using namespace meshbus;
using namespace meshbus::test;

namespace {

using Form = WireSample::Form;

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
  std::string text(const void* table, const std::string& name) const {
    std::string text;
    REQUIRE(generate_text(parser_, table, "meshbus.wire." + name, &text));
    return text.ends_with('\n') ? text : text + '\n';
  }

 private:
  flatbuffers::Parser parser_;
};

const Schemas& schemas() {
  static const Schemas current(source_dir() + "/schemas");
  return current;
}

/// Frames and what is in them.
std::string frame_meaning(const Schemas& schemas, const std::string& bytes) {
  std::vector<zmq::message_t> parts;
  parts.emplace_back(bytes.data(), bytes.size());
  const auto* data = static_cast<const char*>(parts.front().data());
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

/// What bytes of the form of that sample mean.
std::string meaning(const Schemas& schemas, const WireSample& like, const std::string& bytes) {
  switch (like.form) {
    case Form::control: return schemas.text(flatbuffers::GetRoot<char>(bytes.data()), "Control");
    case Form::table: return schemas.text(flatbuffers::GetRoot<char>(bytes.data()), like.table);
    case Form::frame: return frame_meaning(schemas, bytes);
  }
  return {};
}

template <typename Table>
std::string read_and_write_table(const std::string& bytes, const char* identifier = nullptr) {
  flatbuffers::Verifier verifier(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  REQUIRE(verifier.VerifyBuffer<Table>(identifier));
  typename Table::NativeTableType native;
  flatbuffers::GetRoot<Table>(bytes.data())->UnPackTo(&native);
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(Table::Pack(builder, &native), identifier);
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

/// What the generated code reads, written again by it.
std::string read_and_write(const WireSample& like, const std::string& bytes) {
  if (like.form == Form::control) {
    const auto control = ControlMessage::decode(bytes);
    REQUIRE(control.has_value());
    wire::ControlT native;
    (*control)->UnPackTo(&native);
    return encode_union({native.id, native.deadline_ms, native.is_answer}, native.body);
  }
  if (like.table == "Bootstrap") return read_and_write_table<wire::Bootstrap>(bytes);
  if (like.table == "DetachedCast") return read_and_write_table<wire::DetachedCast>(bytes);
  if (like.table == "CastHead") return read_and_write_table<wire::CastHead>(bytes);
  if (like.table == "CollectAnswers") return read_and_write_table<wire::CollectAnswers>(bytes);
  if (like.table == "Collected") return read_and_write_table<wire::Collected>(bytes);
  if (like.table == "LedgerEntry") return read_and_write_table<wire::LedgerEntry>(bytes);
  if (like.table == "MonitorEvent") return read_and_write_table<wire::MonitorEvent>(bytes, "MBM1");
  if (like.table == "TapBatch") return read_and_write_table<wire::TapBatch>(bytes, "MBT1");
  if (like.table == "PassOn") return read_and_write_table<wire::PassOn>(bytes);
  if (like.table == "PartialReply") return read_and_write_table<wire::PartialReply>(bytes);
  if (like.table == "SettingsAnswer") return read_and_write_table<wire::SettingsAnswer>(bytes);
  if (like.table == "SettingsCall") return read_and_write_table<wire::SettingsCall>(bytes);
  if (like.table == "StatusMesh") return read_and_write_table<wire::StatusMesh>(bytes);
  REQUIRE(like.table.empty());
  return bytes;
}

/// What is newer than the last release.
constexpr const char* kUnreleased = "unreleased";

/// "HostState" of "HostState.2"
std::string message_of(const std::string& name) {
  return name.substr(0, name.find('.'));
}

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
    "schema: this build writes and reads the bytes that releases wrote, and they mean the same") {
  const auto golden = golden_by_name();
  const bool is_to_be_added = std::getenv("ADD_GOLDEN") != nullptr;
  for (const auto& sample : wire_samples()) {
    CAPTURE(sample.name);
    const auto found = golden.find(sample.name);
    if (found == golden.end()) {
      if (is_to_be_added) {
        const auto path = add_golden(
            {kUnreleased, sample.name, meaning(schemas(), sample, sample.bytes), sample.bytes});
        FAIL_CHECK(
            path
            << " is written: read what it says the bytes mean, commit it, and run the test again");
      } else {
        FAIL_CHECK("there are no golden bytes of "
                   << sample.name
                   << ". When it is new: ADD_GOLDEN=1 ./dev test --filter schema "
                      "(schemas/released/README.md)");
      }
      continue;
    }
    const auto expected = meaning_today(found->second);
    INFO("what a release has written never changes: schemas/released/README.md");
    CHECK(meaning(schemas(), sample, found->second.bytes) == expected);
    CHECK(meaning(schemas(), sample, sample.bytes) == expected);
    const auto again = read_and_write(sample, found->second.bytes);
    CHECK(meaning(schemas(), sample, again) == expected);
    // Another FlatBuffers may arrange the same contents in another order.
    if (FLATBUFFERS_VERSION_MAJOR != 2 && sample.form != Form::frame) continue;
    CHECK((sample.bytes == found->second.bytes));
    CHECK((again == found->second.bytes));
  }
  std::set<std::string> names;
  for (const auto& sample : wire_samples()) names.insert(sample.name);
  for (const auto& [name, unused] : golden) {
    if (!names.contains(name) && !is_to_be_added)
      FAIL_CHECK("tests/golden has " << name << ", of which there is no sample any more");
  }
}

TEST_CASE(
    "schema: a reader with a release's schemas reads what this build writes as that release meant "
    "it") {
  std::map<std::string, Schemas> released;
  const auto golden = golden_by_name();
  for (const auto& sample : wire_samples()) {
    const auto found = golden.find(sample.name);
    if (found == golden.end()) continue;  // told by the test above
    const auto& release = found->second.release;
    if (release == kUnreleased) continue;
    CAPTURE(sample.name);
    const auto old =
        released.try_emplace(release, source_dir() + "/schemas/released/" + release).first;
    CHECK(meaning(old->second, sample, sample.bytes) == found->second.meaning);
  }
}

TEST_CASE("schema: every message, and every field of every table, is in the golden bytes") {
  std::set<std::string> seen;
  std::set<std::string> messages;
  for (const auto& sample : wire_samples()) {
    if (sample.form == Form::frame) continue;
    const auto& definition =
        schemas().find(sample.form == Form::control ? "Control" : sample.table);
    note_fields(definition, *flatbuffers::GetRoot<flatbuffers::Table>(sample.bytes.data()), seen);
    messages.insert(message_of(sample.name));
    if (sample.form != Form::control) continue;
    const auto control = ControlMessage::decode(sample.bytes);
    REQUIRE(control.has_value());
    CHECK(control->body_name() == message_of(sample.name));
  }
  for (const auto body : wire::EnumValuesBody()) {
    if (body == wire::Body::NONE) continue;
    INFO("wire_samples() in tests/unit/schemas/samples.cpp: add one of "
         << wire::EnumNameBody(body));
    CHECK(messages.count(wire::EnumNameBody(body)) == 1);
  }
  for (const auto* definition : schemas().parser().structs_.vec) {
    if (definition->fixed) continue;
    for (const auto* field : definition->fields.vec) {
      const auto name = definition->name + "." + field->name;
      INFO("wire_samples() in tests/unit/schemas/samples.cpp: add one that sets " << name);
      CHECK(seen.count(name) == 1);
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
  CHECK(
      warden::to_json_line({.host = "unix:/a \"b\"",
                            .containment = "cgroup v2",
                            .containment_reason = {},
                            .pids_reason = {},
                            .run_dir = "/run/x",
                            .pid = 1,
                            .broker_pid = 2,
                            .agent_pid = 3,
                            .keeper_pid = 4}) ==
      R"({"host":"unix:/a \"b\"","pid":1,"containment":"cgroup v2","pids_limit":0,"run_dir":"/run/x",)"
      R"("monitor":"unix:/run/x/monitor","broker_pid":2,"agent_pid":3,"keeper_pid":4})"
      "\n");
  CHECK(warden::error_json_line("no\n") == "{\"error\":\"no\\u000a\"}\n");
}
