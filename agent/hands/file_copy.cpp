#include "agent/hands/file_copy.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <string_view>

#include "common/base/exit_codes.h"
#include "common/files/tree_reader.h"
#include "common/files/tree_writer.h"

namespace meshbus::hands {
namespace {

bool write_all(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto n = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

}  // namespace

int send_files(const std::vector<std::string>& paths) {
  TreeReader reader(paths);
  std::string out;
  for (bool goes_on = true; goes_on; out.clear()) {
    goes_on = reader.next(out);
    if (!write_all(out)) return exits::kFailed;
  }
  // The other side says what is wrong.
  return reader.problem().empty() ? 0 : exits::kFailed;
}

int receive_files(const std::string& place) {
  for (const int signal : {SIGHUP, SIGINT, SIGTERM}) ::signal(signal, SIG_IGN);
  auto writer = TreeWriter::open(place);
  const auto failed = [](const Error& error) {
    std::fprintf(stderr, "%s\n", error.detail().c_str());
    return exits::kFailed;
  };
  if (!writer) return failed(writer.error());
  std::array<char, 65536> piece;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  while (true) {
    const auto n = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    const auto added = writer->add({piece.data(), static_cast<std::size_t>(n)});
    if (!added) return failed(added.error());
  }
  for (const auto& note : writer->notes()) std::fprintf(stderr, "%s\n", note.c_str());
  if (writer->is_done()) return 0;
  return failed(Error(ErrorCode::io_error, place + ": the copy was broken off"));
}

}  // namespace meshbus::hands
