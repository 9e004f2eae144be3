#include "agent/keeper/shared_process.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <utility>

namespace meshbus::keeper {

namespace {
constexpr int kMostRecords = 2 * kMaxProcsPerBatch;
}

static_assert(os::process_link::kMostProcsPerProcess <= kMaxProcsPerBatch);

Result<std::pair<SharedProcess, UniqueFd>> SharedProcess::make() {
  auto sockets = os::make_packet_pair();
  if (!sockets) return fail(sockets.error());
  return std::pair{SharedProcess(std::move(sockets->first)), std::move(sockets->second)};
}

bool SharedProcess::start(std::vector<Member> members) {
  living_ = std::move(members);
  int error = os::process_link::send(link_.get(), {os::process_link::What::ask, 0, 0}) ? 0 : errno;
  for (Member& member : living_) {
    const std::array fds{member.out.get(), member.err.get()};
    const auto streams = member.out ? std::span<const int>(fds) : std::span<const int>();
    const os::process_link::Record record{os::process_link::What::start, member.place,
                                          static_cast<std::int32_t>(living_.size())};
    if (error == 0 && !os::process_link::send(link_.get(), record, streams)) error = errno;
    // The process holds the only copies now, if it got them: the pipes end with those.
    member.out.reset();
    member.err.reset();
    next_place_ = std::max(next_place_, member.place + 1);
  }
  errno = error;
  // It may have ended already, or it runs something that has no use for this: its end tells the
  // rest.
  return error == 0 || error == EPIPE || error == ECONNRESET;
}

bool SharedProcess::takes(std::size_t count) const {
  pollfd link{link_.get(), 0, 0};
  return has_said_takes_ && link_ && ::poll(&link, 1, 0) == 0 && !are_all_killed() &&
         living_.size() + count <= os::process_link::kMostProcsPerProcess;
}

bool SharedProcess::join(Member member, int bootstrap) {
  const std::array fds{member.out.get(), member.err.get(), bootstrap};
  const auto place_in_bootstrap = static_cast<std::int32_t>(member.place);
  member.place = next_place_;
  if (!os::process_link::send(
          link_.get(), {os::process_link::What::join, member.place, place_in_bootstrap}, fds))
    return false;
  ++next_place_;
  member.out.reset();
  member.err.reset();
  living_.push_back(std::move(member));
  return true;
}

SharedProcess::Aim SharedProcess::aim(const Signal& signal) {
  const auto member = std::find_if(living_.begin(), living_.end(),
                                   [&](const Member& each) { return each.id == signal.id; });
  if (member == living_.end()) return Aim::none;
  const bool is_for_one =
      signal.signal == SIGKILL || signal.signal == SIGTERM || signal.signal == SIGINT;
  if (!is_for_one || living_.size() == 1) return Aim::process;
  if (signal.signal == SIGKILL) {
    member->is_killed = true;
    if (are_all_killed()) return Aim::process;
  }
  // A process that reads nothing has hundreds of these before it; what follows a signal that was
  // not heeded is SIGKILL, and in the end that of all.
  if (!os::process_link::send(link_.get(),
                              {os::process_link::What::signal, member->place, signal.signal}))
    std::fprintf(
        stderr,
        "meshbus-keeper: signal %d for one of %zu procs of a process did not reach it (errno %d)\n",
        signal.signal, living_.size(), errno);
  return Aim::none;
}

bool SharedProcess::hear(const std::function<void(Exit)>& on_end) {
  for (int i = 0; link_ && i < kMostRecords; ++i) {
    const auto message = os::process_link::receive(link_.get());
    if (!message) return errno == EAGAIN || errno == EWOULDBLOCK;
    const auto& record = message->record;
    if (record.what == os::process_link::What::takes) {
      has_said_takes_ = true;
      continue;
    }
    const bool is_killed = record.what == os::process_link::What::killed;
    const bool is_possible = is_killed ? record.number > 0 && record.number <= 64
                                       : record.what == os::process_link::What::ended &&
                                             record.number >= 0 && record.number <= 255;
    const auto member = std::find_if(living_.begin(), living_.end(),
                                     [&](const Member& each) { return each.place == record.proc; });
    if (!is_possible || member == living_.end() || living_.size() == 1)
      return false;  // no process of ours
    Exit exit;
    exit.id = member->id;
    exit.signaled = is_killed;
    exit.code = record.number;
    living_.erase(member);
    on_end(exit);
  }
  return bool(link_);
}

bool SharedProcess::are_all_killed() const {
  return std::all_of(living_.begin(), living_.end(),
                     [](const Member& each) { return each.is_killed; });
}

}  // namespace meshbus::keeper
