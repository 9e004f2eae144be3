#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <random>

#include "agent/host/model/proc_table.h"
#include "agent/host/records/ledger.h"
#include "agent/host/records/ledger_writer.h"
#include "agent/host/streams/output_spool.h"
#include "wire/ledger_generated.h"
#include "wire/logs_generated.h"

namespace meshbus::host {
namespace {

using enum wire::Stream;

UniqueFd make_memory() {
  return UniqueFd(::memfd_create("test", MFD_CLOEXEC));
}
/// As another process would have it: its own descriptor of the same memory.
UniqueFd again(const UniqueFd& memory) {
  return UniqueFd(::fcntl(memory.get(), F_DUPFD_CLOEXEC, 3));
}

std::string entry(const std::string& mesh) {
  wire::LedgerEntryT entry;
  entry.mesh = mesh;
  return Ledger::encode(entry);
}

std::string names(const Ledger& ledger) {
  std::string text;
  for (const auto& bytes : ledger.entries())
    text += flatbuffers::GetRoot<wire::LedgerEntry>(bytes.data())->mesh()->str() + " ";
  return text;
}

/// 512-byte blocks that the memory takes.
long blocks_of(const UniqueFd& memory) {
  struct stat status{};
  ::fstat(memory.get(), &status);
  return status.st_blocks;
}

struct Pipe {
  Pipe() {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
    from.reset(ends[0]);
    to.reset(ends[1]);
  }
  void write(const std::string& text) const {
    REQUIRE(::write(to.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  UniqueFd from, to;
};

std::string take(OutputSpool& spool, std::uint32_t slot, wire::Stream stream, const Pipe& pipe,
                 std::size_t most = 65536) {
  std::string buffer(most, '\0');
  const auto got = spool.read(slot, stream, pipe.from.get(), buffer.data(), most);
  buffer.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return buffer;
}

}  // namespace

TEST_CASE("ledger: what was committed is there for the next agent, and nothing else") {
  const auto memory = make_memory();
  {
    auto ledger = Ledger::open(again(memory)).value();
    CHECK(names(ledger) == "");
    ledger.add(entry("one"));
    ledger.add(entry("a-longer-name"));
    REQUIRE(ledger.commit());
    ledger.add(entry("never"));
  }
  auto ledger = Ledger::open(again(memory)).value();
  CHECK(names(ledger) == "one a-longer-name ");
  ledger.add(entry("three"));
  REQUIRE(ledger.commit());
  CHECK(names(Ledger::open(again(memory)).value()) == "one a-longer-name three ");
}

TEST_CASE("ledger: a size that cannot be takes no memory, and harms no later snapshot") {
  const auto memory = make_memory();
  {
    auto ledger = Ledger::open(again(memory)).value();
    ledger.add(entry("one"));
    REQUIRE(ledger.commit());
  }
  const std::uint64_t size = std::uint64_t{1} << 60;
  REQUIRE(::pwrite(memory.get(), &size, sizeof size, 16) == sizeof size);
  auto ledger = Ledger::open(again(memory)).value();
  CHECK(names(ledger) == "one ");
  ledger.begin_snapshot();
  ledger.add(entry("two"));
  REQUIRE(ledger.commit());
  CHECK(names(Ledger::open(again(memory)).value()) == "two ");
}

TEST_CASE(
    "ledger: a snapshot takes the place of all before it, at once, and gives the memory back") {
  const auto memory = make_memory();
  auto ledger = Ledger::open(again(memory)).value();
  const std::string large(100'000, 'x');
  for (int i = 0; i < 20; ++i) {
    ledger.add(entry(large));
    REQUIRE(ledger.commit());
  }
  CHECK(ledger.is_long());
  const auto before = blocks_of(memory);
  ledger.begin_snapshot();
  ledger.add(entry("all"));
  CHECK(names(ledger) != "all ");  // not yet
  REQUIRE(ledger.commit());
  CHECK(names(ledger) == "all ");
  CHECK_FALSE(ledger.is_long());
  CHECK(blocks_of(memory) < before / 10);
  for (const char* name : {"b", "c"}) {
    ledger.begin_snapshot();
    ledger.add(entry(name));
    REQUIRE(ledger.commit());
    CHECK(names(Ledger::open(again(memory)).value()) == std::string(name) + " ");
  }
}

TEST_CASE(
    "ledger: the drains that were noted last are there for the next agent, also after a snapshot, "
    "and are no mesh") {
  const auto memory = make_memory();
  ProcTable table({});
  LedgerWriter writer(Ledger::open(again(memory)).value(), table);
  const auto left = [&] {
    std::string text;
    const auto ledger = Ledger::open(again(memory)).value();
    CHECK(read_ledger(ledger).empty());
    for (const auto& drain : read_drains(ledger))
      text += drain.mesh + "/" + drain.owner + "/" + drain.reason + "/" + drain.requester + "/" +
              std::to_string(drain.grace_ms) + "/" + std::to_string(drain.in_flight) +
              (drain.hold ? "/hold " : " ");
    return text;
  };
  const auto note = [&](const std::string& mesh, const std::string& reason) {
    std::vector<wire::LedgerDrainT> drains(2);
    drains[0].mesh = mesh;
    drains[0].reason = reason;
    drains[0].requester = "somebody";
    drains[0].grace_ms = 10'000;
    drains[0].in_flight = 16;
    drains[1].owner = "an owner";
    drains[1].hold = true;
    writer.set_drains(std::move(drains));
    writer.write();
  };
  CHECK(left() == "");
  note("a", "first");
  note("b", "second");
  CHECK(left() == "b//second/somebody/10000/16 /an owner///0/0/hold ");
  // Until a snapshot takes the place of all that came before it.
  for (int i = 0; i < 20; ++i) note("c", std::string(100'000, 'x'));
  note("d", "last");
  writer.write();
  CHECK(left() == "d//last/somebody/10000/16 /an owner///0/0/hold ");
  writer.set_drains({});
  writer.write();
  CHECK(left() == "");
}

TEST_CASE("ledger: damage ends it at the last good entry") {
  const auto memory = make_memory();
  auto ledger = Ledger::open(again(memory)).value();
  for (const char* name : {"one", "two", "three"}) ledger.add(entry(name));
  REQUIRE(ledger.commit());
  std::minstd_rand random(5);
  for (int round = 0; round < 2000; ++round) {
    const std::uint64_t value = random();
    const auto at = static_cast<off_t>((std::uint64_t{1} << 40) + random() % 300);
    REQUIRE(::pwrite(memory.get(), &value, 1 + random() % 8, at) > 0);
    CHECK(Ledger::open(again(memory)).value().entries().size() <= 3);
  }
  CHECK_FALSE(Ledger::open(UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC))).has_value());
}

TEST_CASE("ledger: without memory it keeps nothing, and says so") {
  Ledger ledger;
  ledger.add(entry("one"));
  CHECK(ledger.commit());
  CHECK(names(ledger) == "");
  CHECK_FALSE(ledger.is_long());
}

TEST_CASE("output_spool: reads as read does, and what was read is there for the next agent") {
  const auto memory = make_memory();
  Pipe pipe;
  std::uint32_t slot = 0;
  {
    auto spool = OutputSpool::open(again(memory)).value();
    slot = spool.take_slot();
    CHECK(slot == 1);
    char byte = 0;
    CHECK(spool.read(slot, out, pipe.from.get(), &byte, 1) == -1);
    CHECK(errno == EAGAIN);
    pipe.write("hello\nworld");
    CHECK(take(spool, slot, out, pipe, 4) == "hell");
    CHECK(take(spool, slot, out, pipe) == "o\nworld");
    pipe.write("other");
    CHECK(take(spool, slot, err, pipe) == "other");
    spool.release(slot, out, 6);
    spool.set_file(slot, out, 7);
    pipe.write("left");
  }
  auto spool = OutputSpool::open(again(memory)).value();
  spool.keep_slot(slot);
  CHECK(spool.written(slot, out) == 11);
  CHECK(spool.released(slot, out) == 6);
  CHECK(spool.file(slot, out) == 7);
  CHECK(spool.file(slot, err) == 0);
  CHECK(spool.text(slot, out, spool.released(slot, out)) == "world");
  CHECK(spool.text(slot, out, 0) == "hello\nworld");  // for the last lines
  CHECK(spool.text(slot, err, 0) == "other");
  CHECK(take(spool, slot, out, pipe) == "left");
  pipe.to.reset();
  char byte = 0;
  CHECK(spool.read(slot, out, pipe.from.get(), &byte, 1) == 0);
  CHECK(spool.take_slot() == 2);  // not the one that is kept
  spool.keep_slot(7);             // of which this memory knows nothing
  CHECK(spool.written(7, out) == 0);
  CHECK(spool.text(7, err, 0) == "");
  spool.keep_slot(4'000'000'000);
}

TEST_CASE("output_spool: what is released is given back, but for the last bytes") {
  const auto memory = make_memory();
  auto spool = OutputSpool::open(again(memory)).value();
  const auto slot = spool.take_slot();
  Pipe pipe;
  std::string all;
  std::minstd_rand random(3);
  for (int i = 0; i < 200; ++i) {
    std::string bytes(1 + random() % 30'000, '\0');
    for (char& one : bytes) one = static_cast<char>(random());
    all += bytes;
    pipe.write(bytes);
    CHECK(take(spool, slot, out, pipe) == bytes);
    spool.release(slot, out, all.size() - std::min<std::size_t>(all.size(), 1000));
    CHECK(blocks_of(memory) * 512 < 300'000);
  }
  CHECK(spool.text(slot, out, spool.released(slot, out)) == all.substr(all.size() - 1000));
  const auto kept = spool.text(slot, out, 0);
  CHECK(kept.size() >= OutputSpool::kKeptBytes);
  CHECK(all.ends_with(kept));
  spool.release(slot, out, 1);  // never backwards
  CHECK(spool.released(slot, out) == all.size() - 1000);
  spool.free_slot(slot);
  CHECK(blocks_of(memory) * 512 <= 8192);  // the table
  CHECK(spool.take_slot() == slot);
  CHECK(spool.written(slot, out) == 0);
  CHECK(spool.text(slot, out, 0) == "");
}

TEST_CASE("output_spool: what cannot be kept is read all the same") {
  OutputSpool none;
  Pipe pipe;
  CHECK(none.take_slot() == 0);
  pipe.write("abc");
  CHECK(take(none, 0, out, pipe) == "abc");
  // No pipe: splice refuses.
  const auto memory = make_memory();
  auto spool = OutputSpool::open(again(memory)).value();
  const auto slot = spool.take_slot();
  UniqueFd file(::memfd_create("file", MFD_CLOEXEC));
  REQUIRE(::write(file.get(), "xyz", 3) == 3);
  ::lseek(file.get(), 0, SEEK_SET);
  char bytes[3] = {};
  CHECK(spool.read(slot, out, file.get(), bytes, 3) == 3);
  CHECK(std::string(bytes, 3) == "xyz");
  CHECK(spool.text(slot, out, spool.released(slot, out)) ==
        "");  // never sent a second time as zeros
}

}  // namespace meshbus::host
