#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "broker/access/recent_set.h"
#include "broker/links/idle_order.h"
#include "broker/links/link.h"
#include "broker/links/link_shares.h"
#include "broker/links/lone_links.h"
#include "broker/observe/counters.h"
#include "broker/observe/monitor.h"
#include "broker/transport/listener.h"
#include "common/loop/reactor.h"
#include "common/security/keys.h"
#include "common/zmtp/resolver.h"
#include "meshbus/address.h"
#include "meshbus/result.h"
#include "wire/forward.h"
#include "wire/frame_generated.h"

namespace meshbus {

/// Other hosts that a broker knows at a time.
inline constexpr std::size_t kMostLinks = 16384;

/// The other hosts that a broker knows, and its links to them. When there are too many, the link
/// that has been idle longest makes room. Lives on the reactor's thread.
class LinkTable {
 public:
  struct Options {
    /// This broker's own.
    HostAddr host;
    std::uint64_t incarnation = 0;
    bool insecure = false;
    /// For tcp, unless `insecure`.
    std::optional<KeyDirectory> keys = {};
    /// For each other host.
    Outbox::Limits queue{.bytes = 0, .count = 0};
    std::chrono::milliseconds connect_limit{5000};
    std::chrono::milliseconds delivery_limit{30000};
    /// See Introducer::is_limited and LoneLinks.
    std::chrono::milliseconds forget_after{60000};
    /// Whether it may connect to unix sockets, which are those of another user's hosts for some.
    bool dials_unix = true;
    Protocol protocol = {};
    /// See BrokerOptions.
    std::uint64_t capabilities = kCapabilities;
  };
  struct Events {
    /// A message from the broker of that link, over our own session to it.
    std::function<void(Link&, const FrameReader::Message&)> on_message;
    /// Sends by the connection that the other broker opened.
    std::function<Listener::Sent(Peer&, Frame&)> send;
    /// The incarnation of the other broker that this connection belongs to is over.
    std::function<void(Peer&)> on_superseded;
  };
  /// The principal on whose request a host is introduced (Identity::principal), and how many links
  /// it may have introduced at a time.
  struct Introducer {
    std::string principal;
    std::size_t most = kMostLinks;
    /// A link that it alone has introduced, that never had an answer and that nobody uses is
    /// forgotten after a while: what it costs does not stay.
    bool is_limited = false;
  };
  /// A message that a link gave up.
  struct Returned {
    wire::Envelope envelope;
    Error error;
  };

  /// `monitor` may be null.
  LinkTable(Reactor& reactor, Counters& counters, Monitor* monitor, Options options, Events events);

  /// The link to that host, made if need be. Without `is_dialled` it takes connections of that
  /// host's broker, and makes none itself, unless another introduction allows that. Errors:
  /// unroutable (our own address, one that cannot be reached, too many), identity_mismatch.
  /// `by` bounds what is made; null: a link or the broker itself asks.
  Result<Link*> introduce(const HostAddr& host, bool is_dialled = true,
                          const Introducer* by = nullptr);
  /// Whether this broker connects to that host itself. Errors: unroutable.
  Result<void> may_dial(const HostAddr& host) const;
  /// Or null.
  Link* find(std::uint64_t host) const {
    const auto found = links_.find(host);
    return found == links_.end() ? nullptr : found->second.get();
  }
  /// The highest role that the broker of that host vouches for over our own session to it.
  wire::Role ceiling(std::uint64_t host) const;
  /// Remembers why that host was not introduced, for those that send to it all the same.
  void refuse(std::uint64_t host, const Error& error) { refused_.add(host, error); }
  /// Forgets what was refused by the last call.
  void forget_refused() { refused_.forget_older(); }
  /// Or null.
  const Error* find_refusal(std::uint64_t host) const { return refused_.find(host); }

  /// Whether flush() or take_returned() has something to do.
  bool has_work() const noexcept { return !touched_.empty() || !returned_.empty(); }
  /// Sends what there is to send.
  void flush();
  /// The messages that links have given up since the last call.
  std::vector<Returned> take_returned() { return std::exchange(returned_, {}); }
  void close(const std::string& reason);
  /// Keys on disk have changed.
  void check_keys();
  /// Links that are disturbed on purpose now.
  std::size_t disturbed() const noexcept;
  /// Messages in links.
  std::size_t held() const noexcept;
  /// Links that have a connection.
  std::size_t connected() const noexcept;
  /// By address, at most so many.
  std::vector<wire::LinkStateT> states(std::size_t most) const;

 private:
  using KeySource = std::function<Result<CurveKeys>()>;
  /// Errors: unroutable.
  Result<void> check_reachable(const HostAddr& host, const KeySource& keys) const;
  /// What a connection to that host needs; empty when it needs no key. Its errors are for peers.
  KeySource key_source(const HostAddr& host) const;
  /// Reads what the broker of that link vouches for.
  void note_ceiling(const Link& link);
  Link::Events link_events();
  /// Makes room for one more link. Errors: unroutable.
  Result<void> make_room(const Introducer* by);
  /// Forgets that link if it is idle.
  bool evict(std::uint64_t key);
  void set_idle(std::uint64_t key, bool is_idle);
  /// See LoneLinks.
  bool may_forget(std::uint64_t key) const;

  Reactor& reactor_;
  Counters& counters_;
  Monitor* monitor_;
  Options options_;
  Events events_;
  Resolver resolver_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Link>> links_;
  /// The ceilings of hosts that were connected to with keys.
  std::unordered_map<std::uint64_t, wire::Role> ceilings_;
  IdleOrder idle_;
  LinkShares shares_;
  LoneLinks lone_;
  /// The numbers of frames go on when a link that was forgotten is made again.
  RecentSet<std::uint64_t, LinkStream::Memory> memories_{4 * kMostLinks};
  RecentSet<std::uint64_t, Error> refused_{1024};
  /// Links with something to send.
  std::vector<Link*> touched_;
  std::vector<Returned> returned_;
};

}  // namespace meshbus
