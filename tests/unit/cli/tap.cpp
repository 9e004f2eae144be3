// What `meshbus tap` makes of batches: files, counts, lines.
#include <doctest/doctest.h>

#include <fstream>

#include "cli/tap/tap_batch.h"
#include "cli/tap/tap_file.h"
#include "cli/tap/tap_printer.h"
#include "common/wire/tap_filter.h"
#include "meshbus/key.h"
#include "tests/support/temp_dir.h"
#include "wire/monitor_generated.h"

namespace meshbus::cli {
namespace {

using test::TempDir;

const std::string kBus = "unix:/run/m/bus";
const std::string kProcOfBus = kBus + ",train_0-13Se1Maqzryj";

std::string bytes_of_batch(std::uint64_t stream, std::uint64_t first, const std::vector<std::string>& bodies,
                           const std::function<void(wire::TapBatchT&)>& change = {}) {
  wire::TapBatchT batch;
  batch.host = kBus;
  batch.incarnation = 1;
  batch.stream = stream;
  batch.first = first;
  for (const auto& body : bodies) {
    wire::Envelope envelope;
    envelope.mutate_source_proc(key_of(kProcOfBus));
    envelope.mutate_source_host(key_of(kBus));
    envelope.mutate_destination_proc(key_of("tcp:h:1,other"));
    envelope.mutate_destination_host(key_of("tcp:h:1"));
    envelope.mutate_length(static_cast<std::uint32_t>(body.size()));
    envelope.mutate_port(7);
    envelope.mutate_kind(wire::Kind::message);
    envelope.mutate_lane(wire::Lane::data);
    batch.entries.emplace_back(envelope, 1'700'000'000'123'456'000, static_cast<std::uint32_t>(body.size()), 0U);
    batch.bodies.insert(batch.bodies.end(), body.begin(), body.end());
  }
  for (const auto& text : {kBus, kProcOfBus}) {
    auto name = std::make_unique<wire::TapNameT>();
    name->key = key_of(text);
    name->text = text;
    batch.names.push_back(std::move(name));
  }
  if (change) change(batch);
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(wire::CreateTapBatch(builder, &batch), kTapIdentifier);
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

TapBatch batch_of(std::uint64_t stream, std::uint64_t first, const std::vector<std::string>& bodies) {
  return *TapBatch::decode(bytes_of_batch(stream, first, bodies));
}

void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The bodies of all messages in a file, as far as it can be read.
std::vector<std::string> bodies_in(TapFileReader& reader) {
  std::vector<std::string> bodies;
  for (;;) {
    const auto batch = reader.next();
    REQUIRE(batch.has_value());
    if (!*batch) return bodies;
    for (const auto& message : (*batch)->messages()) bodies.emplace_back(message.body);
  }
}

}  // namespace

TEST_CASE("tap_batch: bodies are cut at their lengths; what does not fit together is refused") {
  const auto batch = batch_of(1, 5, {"one", "", "three"});
  const auto messages = batch.messages();
  REQUIRE(messages.size() == 3);
  CHECK(messages[0].number == 5);
  CHECK(messages[2].number == 7);
  CHECK(messages[0].body == "one");
  CHECK(messages[1].body.empty());
  CHECK(messages[2].body == "three");
  CHECK(messages[2].has_whole_body());

  using Change = std::function<void(wire::TapBatchT&)>;
  const std::vector<Change> changes = {
      [](wire::TapBatchT& one) { one.bodies.pop_back(); },
      [](wire::TapBatchT& one) { one.entries[0] = wire::TapEntry(one.entries[0].envelope(), 0, UINT32_MAX, 0); },
      [](wire::TapBatchT& one) { one.entries[0].mutable_envelope().mutate_length(2); },
      [](wire::TapBatchT& one) { one.entries[0].mutable_envelope().mutate_length(UINT32_MAX); },
      [](wire::TapBatchT& one) { one.host = "nonsense"; }};
  for (const auto& change : changes) {
    const auto decoded = TapBatch::decode(bytes_of_batch(1, 1, {"abc"}, change));
    REQUIRE_FALSE(decoded.has_value());
    CHECK(decoded.error().code() == ErrorCode::malformed_message);
  }
  const std::string whole = bytes_of_batch(1, 1, {"abc"});
  for (std::size_t size = 0; size < whole.size() - 8; ++size) CHECK_FALSE(TapBatch::decode(whole.substr(0, size)).has_value());
}

TEST_CASE("tap_batch: whatever bytes are changed, it is refused or can be shown") {
  const std::string whole = bytes_of_batch(1, 1, {"abc", std::string(40, 'x')});
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const char value : {'\0', '\1', '\x7f', '\x80', '\xff'}) {
      std::string changed = whole;
      changed[at] = value;
      const auto batch = TapBatch::decode(changed);
      if (!batch) continue;
      TapNames names;
      names.learn(*batch);
      TapCount().missed_before(*batch);
      for (TapPrinter printer : {TapPrinter(false), TapPrinter(true)}) {
        for (const auto& message : batch->messages()) CHECK(printer.line(message, names, (*batch)->host()->string_view()).ends_with('\n'));
      }
    }
  }
}

TEST_CASE("tap_count: a gap is what was missed; another stream is an interruption") {
  TapCount count;
  CHECK(count.missed_before(batch_of(1, 100, {"a", "b"})) == 0);  // what came before us is not ours
  CHECK(count.missed_before(batch_of(1, 102, {})) == 0);
  CHECK(count.missed_before(batch_of(1, 110, {"c"})) == 8);
  CHECK_FALSE(count.is_interrupted());
  CHECK(count.missed_before(batch_of(2, 1, {"d"})) == 0);
  CHECK(count.is_interrupted());
  CHECK(count.missed_before(batch_of(2, 4, {})) == 2);
  CHECK_FALSE(count.is_interrupted());
  CHECK(count.seen() == 4);
  CHECK(count.missed() == 10);
}

TEST_CASE("tap_file: what was written is read, and gone on with") {
  const TempDir dir;
  const std::string path = dir / "record";
  {
    auto writer = TapFileWriter::open(path);
    REQUIRE(writer.has_value());
    REQUIRE(writer->append(batch_of(1, 1, {"one", "two"})).has_value());
    const auto second = TapFileWriter::open(path);
    REQUIRE_FALSE(second.has_value());
    CHECK(second.error().detail().find("another meshbus tap") != std::string::npos);
  }
  {
    auto writer = TapFileWriter::open(path);
    REQUIRE(writer.has_value());
    CHECK(writer->cut() == 0);
    REQUIRE(writer->append(batch_of(2, 1, {"three"})).has_value());
  }
  auto reader = TapFileReader::open(path);
  REQUIRE(reader.has_value());
  CHECK(bodies_in(*reader) == std::vector<std::string>{"one", "two", "three"});
  CHECK(reader->torn() == 0);
}

TEST_CASE("tap_file: cut anywhere, all whole batches are there, and writing goes on behind them") {
  const TempDir dir;
  const std::string path = dir / "record";
  std::uint64_t first = 0;
  {
    auto writer = TapFileWriter::open(path);
    REQUIRE(writer->append(batch_of(1, 1, {"one"})).has_value());
    first = read_bytes(path).size();
    REQUIRE(writer->append(batch_of(1, 2, {"two"})).has_value());
  }
  const std::string whole = read_bytes(path);
  for (std::size_t size = first; size < whole.size(); ++size) {
    CAPTURE(size);
    write_bytes(path, whole.substr(0, size));
    auto reader = TapFileReader::open(path);
    CHECK(bodies_in(*reader) == std::vector<std::string>{"one"});
    CHECK(reader->torn() == size - first);
    CHECK(reader->position() == first);
  }
  auto writer = TapFileWriter::open(path);
  REQUIRE(writer.has_value());
  CHECK(writer->cut() == whole.size() - 1 - first);
  REQUIRE(writer->append(batch_of(1, 2, {"again"})).has_value());
  auto reader = TapFileReader::open(path);
  CHECK(bodies_in(*reader) == std::vector<std::string>{"one", "again"});
}

TEST_CASE("tap_file: a file that is something else is refused and left as it is; damage has a place") {
  const TempDir dir;
  const std::string path = dir / "other";
  for (const std::string& bytes : {std::string("#!/bin/sh\necho hello, this is a script\n"), std::string("x"), std::string(4096, '\0'),
                                   std::string("\x10\0\0\0abcdefghijklmnopqrst", 24)}) {
    write_bytes(path, bytes);
    const auto writer = TapFileWriter::open(path);
    REQUIRE_FALSE(writer.has_value());
    CHECK(writer.error().code() == ErrorCode::parse_error);
    CHECK(read_bytes(path) == bytes);
  }
  write_bytes(path, "");
  CHECK(TapFileWriter::open(path).has_value());
  CHECK(TapFileWriter::open(dir / "no/such/folder").error().code() == ErrorCode::io_error);
  CHECK(TapFileWriter::open("/dev/null").error().detail().find("no file") != std::string::npos);
  CHECK(TapFileReader::open(dir / "none").error().code() == ErrorCode::io_error);

  {
    auto writer = TapFileWriter::open(path);
    REQUIRE(writer->append(batch_of(1, 1, {"one"})).has_value());
  }
  const std::string one = read_bytes(path);
  write_bytes(path, one + std::string(64, '\0'));
  auto reader = TapFileReader::open(path);
  REQUIRE(reader->next().has_value());
  const auto damaged = reader->next();
  REQUIRE_FALSE(damaged.has_value());
  CHECK(damaged.error().code() == ErrorCode::parse_error);
  CHECK(damaged.error().position() == one.size());
}

TEST_CASE("tap_printer: columns line up, and names stand for keys where they are known") {
  TapNames names;
  const auto batch = batch_of(1, 1, {"hello\x01", ""});
  names.learn(batch);
  TapPrinter printer(false);
  const auto messages = batch.messages();
  const std::string header = printer.header(), line = printer.line(messages[0], names, kBus),
                    other = printer.line(messages[1], names, kBus);
  CHECK(line.starts_with("22:13:20.123456  train_0-13Se1Maqzryj"));
  CHECK(line.find(key_text(key_of("tcp:h:1,other")) + "@" + key_text(key_of("tcp:h:1"))) != std::string::npos);
  CHECK(line.find("hello\\u{1}") != std::string::npos);
  CHECK(header.find("FROM") == line.find("train_0"));
  CHECK(line.find("message") == other.find("message"));
  CHECK(printer.missed_line(3) == "[3 messages missed]\n");
  TapPrinter json(true);
  CHECK(json.header().empty());
  const auto text = json.line(messages[0], names, kBus);
  CHECK(text.find("\"from\":\"" + kProcOfBus + "\"") != std::string::npos);
  CHECK(text.find("\"to\":null") != std::string::npos);
  CHECK(text.find("\"body\":\"aGVsbG8B\"") != std::string::npos);
  CHECK(to_base64("") == "");
  CHECK(to_base64("f") == "Zg==");
  CHECK(to_base64("fo") == "Zm8=");
  CHECK(to_base64("foo") == "Zm9v");
}

}  // namespace meshbus::cli
