#pragma once

#if __cplusplus < 202002L
#error "meshbus needs C++20: compile with -std=c++20, or set CMAKE_CXX_STANDARD to 20"
#endif

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

namespace [[gnu::visibility("default")]] meshbus {

/// What went wrong, as a small stable number that is the same on the wire and in the API
///. Append only: a number, once released, keeps its meaning for ever. schemas/codes.fbs
/// lists the same numbers; common/wire/control.cpp checks that they agree.
enum class ErrorCode : std::uint16_t {
  none = 0,      ///< No error. Never inside an Error; it is what "fine" looks like on the wire.
  internal = 1,  ///< Our own bug, reported rather than hidden.
  parse_error =
      2,  ///< A text is not what was expected; the detail says position, expected and found.
  configuration_error = 3,        ///< A setting or an argument that cannot work.
  invalid_rank_cardinality = 4,   ///< The number of items is not the number of ranks.
  proc_creation_error = 5,        ///< A rank ended while its mesh was being made.
  proc_spawn_error = 6,           ///< Ranks were not ready by the deadline.
  actor_spawn_error = 7,          ///< An actor could not be made.
  actor_type_not_registered = 8,  ///< The program of the procs has no actor type of that name.
  stop_error = 9,                 ///< A stop or shutdown that did not reach every rank or host.
  call_error = 10,                ///< The callee answered with an error.
  sending_error = 11,             ///< A message could not be sent.
  casting_error = 12,             ///< A cast could not be sent.
  undeliverable = 13,             ///< Came back; the detail says why when no closer code fits.
  not_exist = 14,                 ///< No such resource.
  timeout = 15,                   ///< The deadline passed.
  fate_unknown = 16,              ///< May or may not have happened: the process that knew is dead.
  unauthorised = 17,       ///< The sender's role does not allow it, or its identity is not proven.
  version_mismatch = 18,   ///< The two sides speak no version of the protocol in common.
  identity_mismatch = 19,  ///< Another process, or another incarnation, answers at that address.
  queue_full = 20,         ///< More waits already than may.
  too_large = 21,          ///< More bytes than may be.
  unroutable = 22,         ///< No way to that address: it is not known here.
  would_block = 23,        ///< It would wait for the very thread that it came from.
  host_unreachable = 24,   ///< A host does not answer.
  io_error = 25,      ///< The operating system refused; the detail has the call and the reason.
  no_such_host = 26,  ///< Undeliverable: the broker knows no host of that key.
  no_such_proc = 27,  ///< Undeliverable: no proc of that name is registered on that host.
  no_such_port =
      28,        ///< Undeliverable: the proc is there, but nothing listens on that port or message.
  expired = 29,  ///< Undeliverable: hop limit or delivery limit.
  refused = 30,  ///< The receiver will not do that.
  link_lost = 31,          ///< Undeliverable: the connection to that host broke.
  malformed_message = 32,  ///< Bytes from a peer that are not a message.
  exec_failed = 33,   ///< A command could not be executed; the detail names file, step and reason.
  out_of_range = 34,  ///< A rank, index or range outside of what is there.
};

/// The stable name of a code: "not_exist". Never null.
std::string_view to_string(ErrorCode code) noexcept;

struct RankReport;

/// An error: a stable code, and a text for people that says what, where and why. Each level may put
/// context in front of the text.
class Error {
 public:
  Error(ErrorCode code, std::string detail)
      : code_(code), detail_(std::move(detail)) {}   ///< A code, and a text for people.
  ErrorCode code() const noexcept { return code_; }  ///< What went wrong, for programs.
  const std::string& detail() const noexcept { return detail_; }  ///< For people.
  /// Where a parser found the error in its text, as a byte offset from 0. The detail says it too.
  /// It does not travel on the wire.
  std::optional<std::size_t> position() const noexcept { return position_; }
  /// The same error, with that position.
  Error at(std::size_t position) const;
  /// The same error with "context: " put in front of the detail.
  Error within(std::string_view context) const;
  /// The ranks that it is about, as their launcher knows them: of HostMesh::spawn() that failed
  /// (proc_spawn_error, proc_creation_error) and of ProcMesh::stop() that left some (stop_error).
  /// Null: none. Needs meshbus/rank_report.h. They do not travel on the wire.
  const std::shared_ptr<const std::vector<RankReport>>& reports() const noexcept {
    return reports_;
  }
  /// The same error, with these reports.
  Error about(std::shared_ptr<const std::vector<RankReport>> reports) const;
  /// "not_exist: mesh trainers: no rank 9 of 8"
  std::string to_string() const;

 private:
  ErrorCode code_;
  std::string detail_;
  std::optional<std::size_t> position_;
  std::shared_ptr<const std::vector<RankReport>> reports_;
};

/// A value or an Error: what everything returns that may fail at run time.
template <typename T>
using Result = tl::expected<T, Error>;

/// `return fail(ErrorCode::not_exist, "no mesh " + name);`
inline tl::unexpected<Error> fail(ErrorCode code, std::string detail) {
  return tl::unexpected<Error>(Error(code, std::move(detail)));
}
inline tl::unexpected<Error> fail(Error error) {
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace meshbus
