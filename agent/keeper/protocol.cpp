#include "agent/keeper/protocol.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "agent/keeper/byte_stream.h"
#include "common/base/os_error.h"

namespace meshbus::keeper {

namespace {

// Every packet: magic (u32), number of records (u32), records; each record starts with its tag
// (u8).
constexpr std::uint32_t kEventsMagic = 0x4545'4d04;
constexpr std::uint32_t kRequestsMagic = 0x5145'4d02;
enum class Tag : std::uint8_t {
  birth = 1,
  exit = 2,
  gone = 3,
  spawn = 4,
  signal = 5,
  kill_mesh = 6,
  forget = 7,
  close_input = 8,
  replayed = 9,
  mark = 10,
  signalled = 11,
  hold = 12
};
// Which descriptors of a Birth follow, in this order.
enum FdBit : std::uint8_t { pidfd_bit = 1, stdin_bit = 2, stdout_bit = 4, stderr_bit = 8 };
constexpr std::size_t kFdsPerBirth = 4;
// An agent works some 100 µs on each, and handles nothing else before it has done a packet.
constexpr std::uint32_t kMaxRecordsPerPacket = 64;
constexpr std::size_t kLongestFile = 4096;  // PATH_MAX; what is longer is cut
constexpr std::size_t kLongestRecord = kLongestFile + 128;

Error malformed(const char* what) {
  return {ErrorCode::malformed_message, std::string("keeper protocol: ") + what};
}
void begin(std::vector<std::byte>& bytes, std::uint32_t magic) {
  ByteWriter writer(bytes);
  writer.put(magic);
  writer.put(std::uint32_t{0});
}

void set_count(std::vector<std::byte>& bytes, std::uint32_t count) {
  std::memcpy(bytes.data() + sizeof count, &count, sizeof count);
}

// Takes the next descriptor of the packet when `wanted`.
bool take_fd(std::vector<UniqueFd>& fds, std::size_t& next, bool wanted, UniqueFd& to) {
  if (!wanted) return true;
  if (next >= fds.size()) return false;
  to = std::move(fds[next++]);
  return true;
}

bool read_birth(ByteReader& reader, std::vector<UniqueFd>& fds, std::size_t& next_fd,
                Birth& birth) {
  birth.id = reader.get<std::uint64_t>();
  const auto stage = reader.get<std::uint8_t>();
  const auto error = reader.get<std::int32_t>();
  birth.pid = reader.get<std::int32_t>();
  birth.spawned_realtime_ns = reader.get<std::int64_t>();
  birth.started_realtime_ns = reader.get<std::int64_t>();
  birth.started_monotonic_ns = reader.get<std::int64_t>();
  const auto bits = reader.get<std::uint8_t>();
  std::string file = reader.get_string();
  if (!reader.ok() || stage > static_cast<std::uint8_t>(os::SpawnStage::memory_policy))
    return false;
  if (stage != 0)
    birth.failure = os::SpawnFailure{static_cast<os::SpawnStage>(stage), error, std::move(file)};
  return take_fd(fds, next_fd, (bits & pidfd_bit) != 0, birth.pidfd) &&
         take_fd(fds, next_fd, (bits & stdin_bit) != 0, birth.stdin_pipe) &&
         take_fd(fds, next_fd, (bits & stdout_bit) != 0, birth.stdout_pipe) &&
         take_fd(fds, next_fd, (bits & stderr_bit) != 0, birth.stderr_pipe);
}

Exit read_exit(ByteReader& reader) {
  Exit exit;
  exit.id = reader.get<std::uint64_t>();
  exit.signaled = reader.get<std::uint8_t>() != 0;
  exit.core_dumped = reader.get<std::uint8_t>() != 0;
  exit.code = reader.get<std::int32_t>();
  exit.ended_realtime_ns = reader.get<std::int64_t>();
  exit.ended_monotonic_ns = reader.get<std::int64_t>();
  exit.user_us = reader.get<std::int64_t>();
  exit.system_us = reader.get<std::int64_t>();
  exit.max_rss_kib = reader.get<std::int64_t>();
  exit.memory_kills = reader.get<std::uint32_t>();
  exit.memory_limit_hit = reader.get<std::uint8_t>() != 0;
  return exit;
}

Signal read_signal(ByteReader& reader) {
  Signal signal;
  signal.id = reader.get<std::uint64_t>();
  signal.signal = reader.get<std::int32_t>();
  signal.group = reader.get<std::uint8_t>() != 0;
  return signal;
}

Hold read_hold(ByteReader& reader) {
  Hold hold;
  hold.id = reader.get<std::uint64_t>();
  hold.for_ms = reader.get<std::uint32_t>();
  hold.percent = reader.get<std::uint8_t>();
  hold.most = reader.get<std::uint32_t>();
  return hold;
}

Signalled read_signalled(ByteReader& reader) {
  Signalled signalled;
  signalled.token = reader.get<std::uint64_t>();
  signalled.id = reader.get<std::uint64_t>();
  signalled.error = reader.get<std::int32_t>();
  return signalled;
}

template <typename WithId>
os::Packet make_id_packet(Tag tag, std::span<const WithId> records) {
  os::Packet packet;
  begin(packet.bytes, kRequestsMagic);
  set_count(packet.bytes, static_cast<std::uint32_t>(records.size()));
  ByteWriter writer(packet.bytes);
  for (const WithId& record : records) {
    writer.put(static_cast<std::uint8_t>(tag));
    writer.put(record.id);
  }
  return packet;
}

Result<UniqueFd> make_memory_file(std::span<const std::byte> bytes) {
  UniqueFd file(::memfd_create("meshbus-spawn", MFD_CLOEXEC));
  if (!file) return fail(ErrorCode::io_error, os_error("memfd_create for a spawn request"));
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t written = ::write(file.get(), bytes.data() + done, bytes.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0)
      return fail(ErrorCode::io_error, os_error("write of a spawn request to its memfd"));
    done += static_cast<std::size_t>(written);
  }
  return file;
}

// Copies: a mapping could be cut short under our feet.
Result<std::vector<std::byte>> read_memory_file(int file) {
  struct stat status{};
  if (::fstat(file, &status) != 0)
    return fail(ErrorCode::io_error, os_error("fstat of a spawn request"));
  if (!S_ISREG(status.st_mode) || status.st_size < 0 ||
      static_cast<std::uint64_t>(status.st_size) > kMaxSpecBytes) {
    return fail(malformed("a spawn request of impossible size"));
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(status.st_size));
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t got =
        ::pread(file, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return fail(ErrorCode::io_error, os_error("pread of a spawn request"));
    done += static_cast<std::size_t>(got);
  }
  return bytes;
}

}  // namespace

void EventPacker::add(Birth birth) {
  if (count_++ == 0) begin(packet_.bytes, kEventsMagic);
  ByteWriter writer(packet_.bytes);
  writer.put(static_cast<std::uint8_t>(Tag::birth));
  writer.put(birth.id);
  writer.put(birth.failure ? static_cast<std::uint8_t>(birth.failure->stage) : std::uint8_t{0});
  writer.put(static_cast<std::int32_t>(birth.failure ? birth.failure->error : 0));
  writer.put(static_cast<std::int32_t>(birth.pid));
  writer.put(birth.spawned_realtime_ns);
  writer.put(birth.started_realtime_ns);
  writer.put(birth.started_monotonic_ns);
  std::uint8_t bits = 0;
  const auto attach = [&](UniqueFd& fd, FdBit bit) {
    if (!fd) return;
    bits = static_cast<std::uint8_t>(bits | bit);
    packet_.fds.push_back(std::move(fd));
  };
  attach(birth.pidfd, pidfd_bit);
  attach(birth.stdin_pipe, stdin_bit);
  attach(birth.stdout_pipe, stdout_bit);
  attach(birth.stderr_pipe, stderr_bit);
  writer.put(bits);
  writer.put(birth.failure ? std::string_view(birth.failure->file).substr(0, kLongestFile)
                           : std::string_view());
}

void EventPacker::add(const Exit& exit) {
  if (count_++ == 0) begin(packet_.bytes, kEventsMagic);
  ByteWriter writer(packet_.bytes);
  writer.put(static_cast<std::uint8_t>(Tag::exit));
  writer.put(exit.id);
  writer.put(static_cast<std::uint8_t>(exit.signaled));
  writer.put(static_cast<std::uint8_t>(exit.core_dumped));
  writer.put(static_cast<std::int32_t>(exit.code));
  writer.put(exit.ended_realtime_ns);
  writer.put(exit.ended_monotonic_ns);
  writer.put(exit.user_us);
  writer.put(exit.system_us);
  writer.put(exit.max_rss_kib);
  writer.put(exit.memory_kills);
  writer.put(static_cast<std::uint8_t>(exit.memory_limit_hit));
}

void EventPacker::add(const Gone& gone) {
  if (count_++ == 0) begin(packet_.bytes, kEventsMagic);
  ByteWriter writer(packet_.bytes);
  writer.put(static_cast<std::uint8_t>(Tag::gone));
  writer.put(gone.id);
}

void EventPacker::add(Replayed) {
  if (count_++ == 0) begin(packet_.bytes, kEventsMagic);
  ByteWriter(packet_.bytes).put(static_cast<std::uint8_t>(Tag::replayed));
}

void EventPacker::add(const Signalled& signalled) {
  if (count_++ == 0) begin(packet_.bytes, kEventsMagic);
  ByteWriter writer(packet_.bytes);
  writer.put(static_cast<std::uint8_t>(Tag::signalled));
  writer.put(signalled.token);
  writer.put(signalled.id);
  writer.put(signalled.error);
}

bool EventPacker::full() const noexcept {
  return count_ >= kMaxRecordsPerPacket || packet_.fds.size() + kFdsPerBirth > os::kMaxPacketFds ||
         packet_.bytes.size() + kLongestRecord > os::kMaxPacketBytes;
}

os::Packet EventPacker::take() {
  if (count_ != 0) set_count(packet_.bytes, count_);
  count_ = 0;
  return std::exchange(packet_, os::Packet{});
}

Result<void> decode_events(os::Packet packet, const EventHandlers& handlers) {
  ByteReader reader(packet.bytes);
  if (reader.get<std::uint32_t>() != kEventsMagic)
    return fail(malformed("bad magic or version from the keeper"));
  const auto count = reader.get<std::uint32_t>();
  std::size_t next_fd = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto tag = static_cast<Tag>(reader.get<std::uint8_t>());
    if (tag == Tag::birth) {
      Birth birth;
      if (!read_birth(reader, packet.fds, next_fd, birth)) return fail(malformed("broken birth"));
      handlers.on_birth(std::move(birth));
    } else if (tag == Tag::exit) {
      const Exit exit = read_exit(reader);
      if (!reader.ok()) return fail(malformed("broken exit"));
      handlers.on_exit(exit);
    } else if (tag == Tag::gone) {
      const Gone gone{reader.get<std::uint64_t>()};
      if (!reader.ok()) return fail(malformed("broken gone"));
      handlers.on_gone(gone);
    } else if (tag == Tag::replayed) {
      handlers.on_replayed();
    } else if (tag == Tag::signalled) {
      const Signalled signalled = read_signalled(reader);
      if (!reader.ok()) return fail(malformed("broken signalled"));
      handlers.on_signalled(signalled);
    } else {
      return fail(malformed("unknown event"));
    }
  }
  if (!reader.at_end()) return fail(malformed("bytes behind the last event"));
  return {};
}

Result<os::Packet> make_spawn_packet(const os::SpawnSpec& shared, std::span<os::ProcSpec> procs) {
  auto bytes = encode_batch(shared, procs);
  if (!bytes) return fail(bytes.error());
  auto file = make_memory_file(*bytes);
  if (!file) return fail(file.error());
  os::Packet packet;
  begin(packet.bytes, kRequestsMagic);
  set_count(packet.bytes, 1);
  ByteWriter(packet.bytes).put(static_cast<std::uint8_t>(Tag::spawn));
  packet.fds.push_back(std::move(*file));
  for (os::ProcSpec& proc : procs) {
    if (proc.bootstrap) packet.fds.push_back(std::move(proc.bootstrap));
  }
  return packet;
}

os::Packet make_signal_packet(std::span<const Signal> signals) {
  os::Packet packet;
  begin(packet.bytes, kRequestsMagic);
  set_count(packet.bytes, static_cast<std::uint32_t>(signals.size()));
  ByteWriter writer(packet.bytes);
  for (const Signal& signal : signals) {
    writer.put(static_cast<std::uint8_t>(Tag::signal));
    writer.put(signal.id);
    writer.put(static_cast<std::int32_t>(signal.signal));
    writer.put(static_cast<std::uint8_t>(signal.group));
  }
  return packet;
}

os::Packet make_hold_packet(const Hold& hold) {
  os::Packet packet;
  begin(packet.bytes, kRequestsMagic);
  set_count(packet.bytes, 1);
  ByteWriter writer(packet.bytes);
  writer.put(static_cast<std::uint8_t>(Tag::hold));
  writer.put(hold.id);
  writer.put(hold.for_ms);
  writer.put(hold.percent);
  writer.put(hold.most);
  return packet;
}

os::Packet make_mark_packet(Mark mark) {
  os::Packet packet;
  begin(packet.bytes, kRequestsMagic);
  set_count(packet.bytes, 1);
  ByteWriter writer(packet.bytes);
  writer.put(static_cast<std::uint8_t>(Tag::mark));
  writer.put(mark.token);
  return packet;
}

os::Packet make_kill_mesh_packet(const KillMesh& request) {
  os::Packet packet;
  begin(packet.bytes, kRequestsMagic);
  set_count(packet.bytes, 1);
  ByteWriter writer(packet.bytes);
  writer.put(static_cast<std::uint8_t>(Tag::kill_mesh));
  writer.put(std::string_view(request.mesh).substr(0, kLongestFile));
  return packet;
}

os::Packet make_forget_packet(std::span<const Forget> ids) {
  return make_id_packet(Tag::forget, ids);
}

os::Packet make_close_input_packet(std::span<const CloseInput> ids) {
  return make_id_packet(Tag::close_input, ids);
}

Result<void> decode_requests(os::Packet packet, const RequestHandlers& handlers) {
  ByteReader reader(packet.bytes);
  if (reader.get<std::uint32_t>() != kRequestsMagic)
    return fail(malformed("bad magic or version from the agent"));
  const auto count = reader.get<std::uint32_t>();
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto tag = static_cast<Tag>(reader.get<std::uint8_t>());
    if (tag == Tag::spawn) {
      if (packet.fds.empty()) return fail(malformed("spawn without its memfd"));
      auto bytes = read_memory_file(packet.fds.front().get());
      if (!bytes) return fail(bytes.error());
      packet.fds.erase(packet.fds.begin());
      auto batch = decode_batch(*bytes, std::exchange(packet.fds, {}));
      if (!batch) return fail(batch.error());
      handlers.on_spawn(std::move(*batch));
    } else if (tag == Tag::signal) {
      const Signal signal = read_signal(reader);
      if (!reader.ok()) return fail(malformed("broken signal"));
      handlers.on_signal(signal);
    } else if (tag == Tag::hold) {
      const Hold hold = read_hold(reader);
      if (!reader.ok()) return fail(malformed("broken hold"));
      handlers.on_hold(hold);
    } else if (tag == Tag::mark) {
      const Mark mark{reader.get<std::uint64_t>()};
      if (!reader.ok()) return fail(malformed("broken mark"));
      handlers.on_mark(mark);
    } else if (tag == Tag::kill_mesh) {
      const KillMesh request{reader.get_string()};
      if (!reader.ok()) return fail(malformed("broken kill_mesh"));
      handlers.on_kill_mesh(request);
    } else if (tag == Tag::forget || tag == Tag::close_input) {
      const auto id = reader.get<std::uint64_t>();
      if (!reader.ok()) return fail(malformed("broken id"));
      tag == Tag::forget ? handlers.on_forget({id}) : handlers.on_close_input({id});
    } else {
      return fail(malformed("unknown request"));
    }
  }
  if (!reader.at_end()) return fail(malformed("bytes behind the last request"));
  return {};
}

std::string protocol_version() {
  constexpr std::uint32_t version_byte = 0xff;
  return std::to_string(kEventsMagic & version_byte) + "." +
         std::to_string(kRequestsMagic & version_byte);
}

}  // namespace meshbus::keeper
