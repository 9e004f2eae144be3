// meshbus-mpi-exec PROGRAM ARGUMENTS...: becomes that program, with what the MPI helper of its host
// has for this rank in its environment. `meshbus run --mpi` puts it in front of the command.
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "agent/mpi/rank_hello.h"
#include "common/base/quantity.h"
#include "common/base/unix_address.h"
#include "common/base/unix_peer.h"

namespace {

using meshbus::mpi::RankHello;

constexpr int kCannotExecute = 126;
constexpr int kNotFound = 127;
constexpr int kOwnFailure = 125;

[[noreturn]] void give_up(int code, const std::string& words) {
  std::fprintf(stderr, "meshbus-mpi-exec: %s\n", words.c_str());
  std::exit(code);
}

std::uint64_t number(const char* name) {
  const char* const text = std::getenv(name);
  const auto value = meshbus::parse_whole(text == nullptr ? "" : text);
  if (!value)
    give_up(kOwnFailure,
            std::string(name) + " is no number: meshbus run --mpi starts this program");
  return *value;
}

/// A connection to the helper that stays open in the program.
int connect_to_helper() {
  const char* const job = std::getenv("MESHBUS_MPI_JOB");
  if (job == nullptr)
    give_up(kOwnFailure, "MESHBUS_MPI_JOB is not set: meshbus run --mpi starts this program");
  const meshbus::UnixAddress address(meshbus::mpi::door_name(job, number("NODE_RANK")));
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  if (fd < 0 || ::connect(fd, address.get(), address.size()) != 0)
    give_up(kOwnFailure,
            std::string("the MPI helper of this host cannot be reached: ") + std::strerror(errno));
  const auto peer = meshbus::unix_peer_of(fd);
  if (!peer || peer->uid != ::geteuid())
    give_up(kOwnFailure, "the MPI helper of this host belongs to another user");
  return fd;
}

void read_all(int fd, void* target, std::size_t size) {
  auto* at = static_cast<char*>(target);
  while (size > 0) {
    const auto got = ::read(fd, at, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) give_up(kOwnFailure, "the MPI helper of this host has ended");
    at += got;
    size -= static_cast<std::size_t>(got);
  }
}

/// Says which rank this is; returns the entries for its environment.
std::string ask_helper(int fd) {
  const auto line =
      RankHello{.rank = number("RANK"), .attempt = number("MESHBUS_RESTARTS")}.to_line();
  if (::write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    give_up(kOwnFailure, "the MPI helper of this host has ended");
  std::uint32_t size = 0;
  read_all(fd, &size, sizeof size);
  std::string entries(size, '\0');
  read_all(fd, entries.data(), size);
  return entries;
}

void set_entry(const std::string& entry, int fd) {
  if (entry.starts_with('!')) give_up(kOwnFailure, entry.substr(1));
  const auto equals = entry.find('=');
  if (equals == std::string::npos) return;
  const auto name = entry.substr(0, equals);
  const auto value = name == "PMI_FD" ? std::to_string(fd) : entry.substr(equals + 1);
  // What a user tunes wins.
  ::setenv(name.c_str(), value.c_str(), name.starts_with("OMPI_MCA_") ? 0 : 1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) give_up(2, "which program? meshbus run --mpi starts this one");
  const int fd = connect_to_helper();
  std::string_view entries;
  const auto answer = ask_helper(fd);
  for (entries = answer; !entries.empty();) {
    const auto end = entries.find('\0');
    set_entry(std::string(entries.substr(0, end)), fd);
    entries.remove_prefix(end == std::string_view::npos ? entries.size() : end + 1);
  }
  ::unsetenv("MESHBUS_MPI_JOB");
  ::execvp(argv[1], argv + 1);
  const int error = errno;
  give_up(error == ENOENT ? kNotFound : kCannotExecute,
          "cannot execute " + std::string(argv[1]) + ": " + std::strerror(error));
}
