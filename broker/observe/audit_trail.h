#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "broker/observe/audit_verbs.h"
#include "broker/peers/peer.h"
#include "common/base/bytes.h"
#include "common/base/event_log.h"
#include "common/base/log.h"
#include "meshbus/address.h"
#include "wire/forward.h"
#include "wire/supervision_generated.h"

namespace meshbus {

/// The principal of an entry of the audit trail. A plain value.
struct AuditedPrincipal {
  /// "operator alice", "uid 0", "host tcp:h1:7420"
  std::string by;
  wire::Role role = wire::Role::none;
  /// "10.0.0.2", "uid 0, pid 4711"; empty: it came over a link.
  std::string address = {};
  /// Its address on the bus, and its pid as it says.
  std::string peer = {};
  std::uint32_t pid = 0;

  static AuditedPrincipal of(const Identity& identity);
  /// The other host's broker, which vouches for the requester.
  static AuditedPrincipal over_link(const HostAddr& host, wire::Role role);
};

/// The record of what principals did on this host, when, and with which outcome (spec 13.6): one
/// line of JSON for each request that changes something, and for each refusal. It is written when
/// the answer passes, so that a line has the outcome; what runs beside a rank has a second line at
/// its end. A full disk stops nothing: what is lost is
/// counted, and the first line that can be written again says how much.
///
/// Lives on the reactor's thread.
class AuditTrail {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// `host`: this host's address, for the lines. `now` tells the time.
  AuditTrail(EventLog log, HostAddr host, std::function<Time()> now)
      : log_(std::move(log)), host_(std::move(host)), now_(std::move(now)) {}
  ~AuditTrail() { end("the broker ended before the answer came"); }
  AuditTrail(const AuditTrail&) = delete;
  AuditTrail& operator=(const AuditTrail&) = delete;

  /// A control message of a peer or link passes. `to`: the other host that it is for; empty: this
  /// one.
  void on_control(const AuditedPrincipal& from, const std::string& to,
                  const wire::Envelope& envelope, Bytes body);
  /// Whether an answer to that peer, or the return of a message of it, may belong to an entry.
  bool is_waiting(std::uint64_t requester) const {
    return waiting_.contains(requester) || running_.contains(requester);
  }
  /// A control message for a requester of which something waits.
  void on_answer(const wire::Envelope& envelope, Bytes body);
  /// Something else happened: a refused Hello, a new host. `outcome`: "ok", or why not.
  void note(const AuditedPrincipal& principal, const std::string& verb, const std::string& what,
            const std::string& outcome);
  /// What waits for an answer and will get none.
  void end(const std::string& outcome);

  /// Entries from that position on, as texts of events; at most `bytes`.
  wire::EventListT find(std::uint64_t from, std::size_t bytes) const;
  /// Entries that could not be written.
  std::uint64_t lost() const noexcept { return log_.lost(); }

 private:
  struct Entry {
    AuditedPrincipal principal;
    AuditedRequest request;
    /// Another host, when it is not for this one.
    std::string to;
    std::int64_t time_ns = 0;
    Time asked{};
  };
  using Key = std::pair<std::uint64_t, std::uint64_t>;
  void write(const Entry& entry, const std::string& outcome);
  void await_end(std::uint64_t requester, Entry entry);
  void forget_oldest();
  void on_exec_ended(std::uint64_t requester, const wire::ExecEnded& ended);
  /// Whether one more entry of a principal with few rights is written. Its first one of each verb
  /// in a second always is, so that many of one kind hide none of another.
  bool may_write(log::LineLimit& limit, const std::string& by, const std::string& verb);
  bool is_first_of_second(const std::string& by, const std::string& verb);
  void expire();

  EventLog log_;
  HostAddr host_;
  std::function<Time()> now_;
  /// By requester and the id of its request.
  std::unordered_map<std::uint64_t, std::map<std::uint64_t, Entry>> waiting_;
  /// Execs, by requester and their number.
  std::unordered_map<std::uint64_t, std::map<std::uint64_t, Entry>> running_;
  std::size_t running_count_ = 0;
  std::deque<std::pair<Time, Key>> order_;
  /// For those with few rights, each second. Many connections hide no refusal, and many refusals of
  /// what asks for nothing hide no request.
  log::LineLimit requests_{10}, refusals_{10}, connections_{10};
  /// When a principal's verb was last written for being the first of its second.
  std::map<std::pair<std::string, std::string>, Time> firsts_;
  std::uint64_t left_out_ = 0;
  std::uint64_t told_lost_ = 0;
};

}  // namespace meshbus
