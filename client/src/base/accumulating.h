#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/bus/bus.h"
#include "common/bus/cast.h"
#include "common/wire/collecting.h"
#include "meshbus/accumulation.h"
#include "meshbus/address.h"
#include "wire/forward.h"

namespace meshbus {

/// One question to all ranks of a view whose answers come reduced by their hosts
/// (schemas/replies.fbs), on the side of the asker. Lives on the reactor's thread, but for what
/// says otherwise. Kept by what it has asked for, until that is answered.
class Accumulating : public std::enable_shared_from_this<Accumulating> {
 public:
  struct Question {
    std::shared_ptr<const CastPlan> to;
    std::uint32_t port = 0;
    std::string body;  ///< As of a call.
    std::string asker;
    Reducer reducer;
    std::chrono::milliseconds deadline{0};
    bool has_snapshots = false;
  };
  using Explain = std::function<Error(const Error&)>;
  /// `explain`: adds to an error what is known of the connection; called as long as `bus` lives.
  Accumulating(Bus& bus, Question question, Explain explain);
  ~Accumulating() = default;
  Accumulating(const Accumulating&) = delete;
  Accumulating& operator=(const Accumulating&) = delete;

  std::uint64_t ticket() const noexcept { return ticket_; }
  /// Asks the hosts, then the ranks. Errors: as Bus::cast; then nothing is to be waited for.
  Result<void> begin();
  /// Something for CollectPort::part; dropped when it does not come from a host that was asked.
  void on_part(const wire::Envelope& from, const wire::CollectedPart& header, Bytes body);
  /// Nobody waits any more: hosts are told so.
  void end();

  /// The host is gone for ever.
  void on_host_ended(const HostAddr& host, const std::string& reason);

  /// Another thread: waits until all is in, calling on_snapshot. False: it is to end earlier.
  bool wait(const AccumulateOptions& options);
  /// Any thread, when it is over.
  const Accumulation& result() const noexcept { return current_; }

 private:
  /// One host that was asked.
  struct Host {
    HostAddr address;
    std::vector<std::uint64_t> ordinals = {};  // in the order of their create ranks
    std::vector<RankBlock> ranks = {};
    std::uint64_t key = 0;  // of its agent
    std::uint32_t parts = 0;
    bool is_open = true;
  };

  void find_hosts();
  /// The question does not fit into one message. Errors: too_large.
  Result<void> ask_large(Bytes body);
  void on_final(std::size_t index, const Result<std::string>& answer);
  void take(const Host& host, const Collected& collected);
  Result<void> add(const Host& host, const Partial& part);
  void fail_rest(const Host& host, const Error& error);
  void fail_rank(std::uint64_t ordinal, const Error& error);
  void publish();
  void finish();

  Bus* bus_;  // null: it is over
  Reactor& reactor_;
  Question question_;
  Explain explain_;
  std::uint64_t ticket_;
  std::vector<Host> hosts_;
  std::size_t num_open_ = 0;
  Accumulator accumulator_;
  std::vector<bool> is_settled_;
  Accumulation current_;
  Reactor::TimerId timer_ = 0;

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<Accumulation> news_;  // guarded by mutex_, like what follows
  bool is_done_ = false;
};

}  // namespace meshbus
