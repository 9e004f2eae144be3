#include "agent/proc/runtime/bootstrap.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>

#include "agent/os/process_link.h"
#include "common/wire/protocol.h"
#include "common/wire/settings_call.h"
#include "common/wire/wire_region.h"
#include "wire/bootstrap_generated.h"

namespace meshbus::mesh_proc {
namespace {

constexpr std::chrono::milliseconds kDefaultAway{10'000};
constexpr std::chrono::milliseconds kDefaultHeartbeat{5'000};
/// Nobody can change what we are about to verify, or take it away under our hands.
constexpr int kNeededSeals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;

struct Place {
  int descriptor;
  int pid;
  std::uint64_t inode;
  std::optional<int> socket;
  std::optional<int> folder;
};

template <typename Number>
bool take_number(std::string_view& text, Number& number, bool is_last) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  if (is_last) return text.empty();
  if (!text.starts_with(':')) return false;
  text.remove_prefix(1);
  return true;
}

Result<Place> parse_place(std::string_view variable) {
  Place place{};
  std::string_view rest = variable;
  const auto colons = std::count(variable.begin(), variable.end(), ':');
  bool is_read = colons <= 4 && take_number(rest, place.descriptor, false) &&
                 take_number(rest, place.pid, false) && take_number(rest, place.inode, colons < 3);
  if (is_read && colons >= 3) is_read = take_number(rest, place.socket.emplace(), colons < 4);
  if (is_read && colons >= 4) is_read = take_number(rest, place.folder.emplace(), true);
  // A proc with a folder may have no socket.
  if (place.folder && place.socket == -1) place.socket.reset();
  if (is_read && place.descriptor >= 0 && place.pid > 0 && place.socket.value_or(0) >= 0 &&
      place.folder.value_or(0) >= 0) {
    return place;
  }
  return fail(ErrorCode::configuration_error, "expected DESCRIPTOR:PID:INODE");
}

bool has_inode(int fd, std::uint64_t inode) {
  struct stat status{};
  return ::fstat(fd, &status) == 0 && status.st_ino == inode;
}

Result<void> check_sealed(int fd) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals >= 0 && (seals & kNeededSeals) == kNeededSeals) return {};
  return fail(ErrorCode::configuration_error, "the descriptor is not sealed memory");
}

Result<ProcMeshRef> to_mesh(const wire::Bootstrap& wire) {
  auto name = Name::parse(wire.mesh()->string_view());
  if (!name) return fail(name.error().within("mesh"));
  std::vector<HostAddr> hosts;
  for (const auto* text : *wire.hosts()) {
    auto host = HostAddr::parse(text->string_view());
    if (!host) return fail(host.error().within("hosts"));
    hosts.push_back(std::move(*host));
  }
  auto region = from_wire(wire.region());
  if (!region) return fail(std::move(region).error());
  const auto ranks = region->num_ranks();
  return ProcMeshRef::make(std::move(*name), std::move(hosts), ranks, std::move(*region));
}

Result<Bootstrap::Self> to_self(const wire::BootstrapProc& wire, std::uint64_t rank,
                                const ProcMeshRef& mesh, const HostAddr& host) {
  auto proc = ProcId::parse(wire.proc()->string_view());
  if (!proc) return fail(std::move(proc).error());
  const auto expected = mesh.proc_of(rank);
  if (!expected) return fail(expected.error());
  if (*expected != *proc || host != proc->host()) {
    return fail(ErrorCode::identity_mismatch,
                "this proc is " + proc->to_string() + " on " + host.to_string() + ", but rank " +
                    std::to_string(rank) + " of its mesh is " + expected->to_string());
  }
  return Bootstrap::Self{
      std::move(*proc), wire.incarnation(), {wire.token()->begin(), wire.token()->end()}, rank};
}

std::chrono::milliseconds or_default(std::uint32_t ms, std::chrono::milliseconds standard) {
  return ms == 0 ? standard : std::chrono::milliseconds(ms);
}

}  // namespace

Result<UniqueFd> open_bootstrap(std::string_view variable) {
  const auto place = parse_place(variable);
  if (!place) return fail(place.error());
  // Ours, unless a wrapper has closed it; then another file may stand at its number, which we must
  // leave alone.
  if (has_inode(place->descriptor, place->inode)) {
    if (auto sealed = check_sealed(place->descriptor); !sealed) return fail(sealed.error());
    return UniqueFd(place->descriptor);
  }
  const std::string path =
      "/proc/" + std::to_string(place->pid) + "/fd/" + std::to_string(place->descriptor);
  UniqueFd other(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!other) {
    return fail(ErrorCode::io_error, "descriptor " + std::to_string(place->descriptor) +
                                         " is not open in this process, and " + path +
                                         " cannot be opened: " + std::strerror(errno));
  }
  if (!has_inode(other.get(), place->inode)) {
    return fail(ErrorCode::configuration_error,
                "neither descriptor " + std::to_string(place->descriptor) + " nor " + path +
                    " is inode " + std::to_string(place->inode));
  }
  if (auto sealed = check_sealed(other.get()); !sealed) return fail(sealed.error());
  return other;
}

Result<UniqueFd> open_link(std::string_view variable) {
  const auto place = parse_place(variable);
  if (!place || !place->socket) return UniqueFd();
  int kind = 0;
  socklen_t size = sizeof kind;
  if (::getsockopt(*place->socket, SOL_SOCKET, SO_TYPE, &kind, &size) != 0 ||
      kind != SOCK_SEQPACKET)
    return fail(ErrorCode::configuration_error,
                "descriptor " + std::to_string(*place->socket) +
                    ", by which the procs of this process are connected to their keeper (" +
                    kBootstrapVariable + "=" + std::string(variable) +
                    "), is not open: start the program itself, or by a wrapper that leaves "
                    "descriptors open, when procs share a process");
  ::fcntl(*place->socket, F_SETFD, FD_CLOEXEC);
  return UniqueFd(*place->socket);
}

Result<std::string> find_broker_by_folder(std::string_view variable) {
  const auto place = parse_place(variable);
  if (!place || !place->folder) return std::string();
  struct stat status{};
  if (::fstat(*place->folder, &status) != 0 || !S_ISDIR(status.st_mode))
    return fail(ErrorCode::configuration_error,
                "descriptor " + std::to_string(*place->folder) +
                    ", by which a proc of another user reaches its broker (" + kBootstrapVariable +
                    "=" + std::string(variable) +
                    "), is not open: start the program itself, or by a wrapper that leaves "
                    "descriptors open");
  ::fcntl(*place->folder, F_SETFD, FD_CLOEXEC);
  return "ipc:///proc/self/fd/" + std::to_string(*place->folder) + "/bus";
}

Result<Bootstrap> Bootstrap::at(std::size_t place) const {
  if (place > others.size())
    return fail(ErrorCode::out_of_range, "there is no proc " + std::to_string(place) +
                                             " in a process of " +
                                             std::to_string(others.size() + 1));
  Bootstrap one = *this;
  one.others.clear();
  if (place == 0) return one;
  const Self& self = others[place - 1];
  one.proc = self.proc;
  one.incarnation = self.incarnation;
  one.token = self.token;
  one.rank = self.rank;
  return one;
}

Result<std::string> read_bootstrap(int fd) {
  struct stat status{};
  if (::fstat(fd, &status) != 0)
    return fail(ErrorCode::io_error, std::string("fstat: ") + std::strerror(errno));
  if (status.st_size > static_cast<off_t>(kBootstrapLimit)) {
    return fail(ErrorCode::too_large, std::to_string(status.st_size) + " bytes; the limit is " +
                                          std::to_string(kBootstrapLimit));
  }
  std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t done = 0;
  // pread: another holder of the descriptor (a wrapper) keeps its position.
  while (done < bytes.size()) {
    const auto count =
        ::pread(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0)
      return fail(ErrorCode::io_error,
                  std::string("read: ") + (count < 0 ? std::strerror(errno) : "unexpected end"));
    done += static_cast<std::size_t>(count);
  }
  return bytes;
}

Result<Bootstrap> decode_bootstrap(Bytes bytes) {
  // FlatBuffers needs alignment; the verifier does not look for it.
  const auto aligned = std::make_unique<std::uint64_t[]>(bytes.size() / sizeof(std::uint64_t) + 1);
  std::memcpy(aligned.get(), bytes.data(), bytes.size());
  flatbuffers::Verifier verifier(reinterpret_cast<const std::uint8_t*>(aligned.get()), bytes.size(),
                                 /*max_depth=*/16);
  if (bytes.size() < 8 || !verifier.VerifyBuffer<wire::Bootstrap>(nullptr)) {
    return fail(ErrorCode::malformed_message,
                "not a bootstrap (" + std::to_string(bytes.size()) + " bytes)");
  }
  const auto& wire = *flatbuffers::GetRoot<wire::Bootstrap>(aligned.get());
  if (auto version = common_version("this program", Protocol(), "its host", Protocol::of(wire));
      !version)
    return fail(version.error());
  if (wire.procs()->size() == 0) return fail(ErrorCode::malformed_message, "no proc in it");
  if (wire.procs()->size() > os::process_link::kMostProcsPerProcess)
    return fail(ErrorCode::malformed_message,
                std::to_string(wire.procs()->size()) + " procs in it");
  auto host = HostAddr::parse(wire.host()->string_view());
  if (!host) return fail(std::move(host).error());
  auto mesh = to_mesh(wire);
  if (!mesh) return fail(std::move(mesh).error());
  std::vector<Bootstrap::Self> procs;
  for (const auto* each : *wire.procs()) {
    auto self = to_self(*each, procs.empty() ? wire.rank() : each->rank(), *mesh, *host);
    if (!self) return fail(self.error());
    procs.push_back(std::move(*self));
  }
  Bootstrap bootstrap{procs.front().proc,
                      procs.front().incarnation,
                      procs.front().token,
                      wire.broker()->str(),
                      std::move(*host),
                      std::move(*mesh),
                      procs.front().rank,
                      {},
                      or_default(wire.away_ms(), kDefaultAway),
                      or_default(wire.heartbeat_ms(), kDefaultHeartbeat)};
  bootstrap.revision = wire.revision();
  bootstrap.others.assign(std::next(procs.begin()), procs.end());
  if (wire.config() != nullptr) {
    for (const auto* entry : *wire.config()) {
      const auto key = entry->key()->string_view();
      const bool is_program = key.starts_with(kProgramKeys);
      (is_program ? bootstrap.program_settings : bootstrap.config)
          .emplace_back(is_program ? key.substr(kProgramKeys.size()) : key, entry->value()->str());
    }
  }
  return bootstrap;
}

Result<Bootstrap> load_joined(int fd, const std::string& broker) {
  if (auto sealed = check_sealed(fd); !sealed) return fail(sealed.error());
  const auto bytes = read_bootstrap(fd);
  if (!bytes) return fail(bytes.error());
  auto bootstrap = decode_bootstrap(*bytes);
  // The way to it is the same, and another one for other users.
  if (bootstrap) bootstrap->broker = broker;
  return bootstrap;
}

Result<Bootstrap> load_bootstrap(std::string_view variable) {
  const auto explained = [variable](const Error& error) {
    return fail(ErrorCode(error.code()),
                "cannot read the bootstrap of this mesh proc, " + std::string(kBootstrapVariable) +
                    "=" + std::string(variable) + ": " + error.detail() +
                    (error.code() == ErrorCode::version_mismatch
                         ? "; a program has the release of the library that it was linked with"
                         : "; start the program with `meshbus run --mesh`, without a wrapper that "
                           "hides /proc, and with the same version of meshbus"));
  };
  const auto fd = open_bootstrap(variable);
  if (!fd) return explained(fd.error());
  const auto bytes = read_bootstrap(fd->get());
  if (!bytes) return explained(bytes.error());
  auto bootstrap = decode_bootstrap(*bytes);
  if (!bootstrap) return explained(bootstrap.error());
  auto broker = find_broker_by_folder(variable);
  if (!broker) return fail(broker.error());
  if (!broker->empty()) bootstrap->broker = std::move(*broker);
  return bootstrap;
}

}  // namespace meshbus::mesh_proc
