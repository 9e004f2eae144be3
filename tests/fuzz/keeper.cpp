// What keeper and agent say to each other. The first byte says which of both reads it and how many
// descriptors come along.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "agent/keeper/protocol.h"
#include "tests/fuzz/support.h"

using namespace meshbus::keeper;
using namespace meshbus::os;
using meshbus::UniqueFd;

FUZZ_MUTATE_IN_PLACE

namespace {

UniqueFd some_fd() {
  return UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC));
}

std::vector<UniqueFd> some_fds(std::size_t count) {
  std::vector<UniqueFd> fds;
  for (std::size_t i = 0; i < count; ++i) fds.push_back(some_fd());
  return fds;
}

void check_batch(std::span<const std::byte> bytes, std::size_t fds) {
  const auto batch = decode_batch(bytes, some_fds(fds));
  if (!batch) return;
  FUZZ_CHECK(batch->procs.size() <= kMaxProcsPerBatch, "too many procs");
  const auto written = encode_batch(batch->shared, batch->procs);
  FUZZ_CHECK(written.has_value(), "what was read cannot be written");
  const auto again = decode_batch(*written, some_fds(fds));
  FUZZ_CHECK(again.has_value() && *encode_batch(again->shared, again->procs) == *written,
             "it changed on the way");
}

/// Reads events, and writes them again.
bool repack(Packet packet, Packet& written) {
  EventPacker packer;
  const bool is_whole =
      decode_events(std::move(packet),
                    {.on_birth = [&](Birth birth) { packer.add(std::move(birth)); },
                     .on_exit = [&](const Exit& exit) { packer.add(exit); },
                     .on_gone = [&](const Gone& gone) { packer.add(gone); },
                     .on_replayed = [&] { packer.add(Replayed{}); },
                     .on_signalled = [&](const Signalled& what) { packer.add(what); }})
          .has_value();
  written = packer.take();
  return is_whole && !written.bytes.empty();
}

void check_events(std::span<const std::byte> bytes, std::size_t fds) {
  Packet first, second;
  if (!repack({{bytes.begin(), bytes.end()}, some_fds(fds)}, first)) return;
  const auto kept = first.bytes;
  FUZZ_CHECK(repack(std::move(first), second), "what we packed ourselves is refused");
  FUZZ_CHECK(second.bytes == kept, "it changed on the way");
}

/// What a packet of requests asks for; spawns are check_batch()'s.
struct Requests {
  std::vector<Signal> signals;
  std::vector<Hold> holds;
  std::vector<Mark> marks;
  std::vector<Forget> forgotten;
  std::vector<CloseInput> closed;

  RequestHandlers handlers() {
    return {.on_spawn = [](SpawnBatch) {},
            .on_signal = [this](const Signal& signal) { signals.push_back(signal); },
            .on_hold = [this](const Hold& hold) { holds.push_back(hold); },
            .on_mark = [this](Mark mark) { marks.push_back(mark); },
            .on_kill_mesh = [](const KillMesh&) {},
            .on_forget = [this](const Forget& forget) { forgotten.push_back(forget); },
            .on_close_input = [this](const CloseInput& close) { closed.push_back(close); }};
  }
};

/// Reads what we packed ourselves.
Requests reread(const Packet& written) {
  Requests again;
  FUZZ_CHECK(decode_requests(Packet{written.bytes, {}}, again.handlers()).has_value(),
             "what we packed ourselves is refused");
  return again;
}

/// The input is the packet when it begins as one, else the request in its memfd.
void check_requests(std::span<const std::byte> bytes, std::size_t fds) {
  Packet packet{{bytes.begin(), bytes.end()}, {}};
  UniqueFd file(::memfd_create("request", MFD_CLOEXEC));
  if (::write(file.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
    std::abort();
  packet.fds.push_back(std::move(file));
  for (auto& fd : some_fds(fds)) packet.fds.push_back(std::move(fd));
  Requests read;
  if (!decode_requests(std::move(packet), read.handlers())) return;
  const auto same_id = [](const auto& a, const auto& b) { return a.id == b.id; };
  const auto same_signal = [](const Signal& a, const Signal& b) {
    return a.id == b.id && a.signal == b.signal && a.group == b.group;
  };
  if (!read.signals.empty())
    FUZZ_CHECK(std::ranges::equal(reread(make_signal_packet(read.signals)).signals, read.signals,
                                  same_signal),
               "signals changed on the way");
  if (!read.holds.empty()) {
    const Hold again = reread(make_hold_packet(read.holds[0])).holds.at(0);
    const Hold& hold = read.holds[0];
    FUZZ_CHECK(again.id == hold.id && again.for_ms == hold.for_ms &&
                   again.percent == hold.percent && again.most == hold.most,
               "a hold changed on the way");
  }
  if (!read.marks.empty())
    FUZZ_CHECK(reread(make_mark_packet(read.marks[0])).marks.at(0).token == read.marks[0].token,
               "a mark changed on the way");
  if (!read.forgotten.empty())
    FUZZ_CHECK(std::ranges::equal(reread(make_forget_packet(read.forgotten)).forgotten,
                                  read.forgotten, same_id),
               "ids changed on the way");
  if (!read.closed.empty())
    FUZZ_CHECK(std::ranges::equal(reread(make_close_input_packet(read.closed)).closed, read.closed,
                                  same_id),
               "ids changed on the way");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Eight bytes, so that numbers behind them keep their alignment for the mutator.
  if (size < 8) return 0;
  const std::size_t fds = data[0] % 8;
  const auto bytes = std::as_bytes(std::span(data + 8, size - 8));
  switch (data[1] % 3) {
    case 0: check_batch(bytes, fds); break;
    case 1: check_events(bytes, fds); break;
    default: check_requests(bytes, fds); break;
  }
  return 0;
}
