#include "broker/transport/listener.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <system_error>
#include <utility>

#include "common/zmtp/resolver.h"

namespace meshbus {
namespace {

/// Connections over tcp may have one in so many of this process's descriptors; and those of them
/// that have not authenticated one in so many, and no fewer or more than these.
constexpr std::size_t kTcpShare = 2;
constexpr std::size_t kPoolShare = 8;
constexpr std::size_t kLeastPool = 16;
constexpr std::size_t kMostPool = 1024;
/// One remote network may have one in so many of the pool.
constexpr std::size_t kNetworkShare = 4;
/// One key that is not trusted may have one in so many of the connections over tcp, whatever
/// connections.per_key says, and so many bytes of messages that are not whole: 16 of the largest.
constexpr std::size_t kKeyShare = 4;
constexpr std::size_t kUnfinishedOfKey = 16 * 1024 * 1024;
/// Descriptors that no new connection takes, so that files and links have some: one in so many, and
/// no more than this.
constexpr std::size_t kKeptShare = 4;
constexpr std::size_t kMostKept = 256;

StreamRouter::Limits router_limits(const Listener::Limits& limits) {
  rlimit descriptors{};
  if (::getrlimit(RLIMIT_NOFILE, &descriptors) != 0) descriptors.rlim_cur = 1024;
  const auto all = static_cast<std::size_t>(
      std::min<rlim_t>(descriptors.rlim_cur, std::numeric_limits<int>::max()));
  const std::size_t kept = std::min(all / kKeptShare, kMostKept);
  const std::size_t pool = std::clamp(all / kPoolShare, kLeastPool, kMostPool);
  const std::size_t of_key = all / kTcpShare / kKeyShare;
  return {.silence = limits.silence,
          .handshake = limits.handshake,
          .message = limits.message,
          .pool = {.all = pool, .per_network = pool / kNetworkShare},
          .connections = all / kTcpShare,
          .key = {.connections = limits.connections_per_key == 0
                                     ? of_key
                                     : std::min<std::size_t>(limits.connections_per_key, of_key),
                  .bytes = kUnfinishedOfKey},
          .gate = {.per_second = limits.connections_per_second,
                   .first_kept = static_cast<int>(all - kept)}};
}

/// Whether it ended because its key is not authorised: the judge has counted and logged that.
bool is_unauthorised(const ZmtpStream& stream) {
  const Mechanism& mechanism = stream.mechanism();
  return mechanism.state() == Mechanism::State::failed &&
         mechanism.failure() == Mechanism::Failure::unauthorised;
}

std::string describe_handshake(const ZmtpStream& stream, bool is_local, bool has_keys) {
  const std::string why = "it " + stream.why_ended();
  if (is_local) return "a connection over a unix socket was refused in its handshake: " + why;
  // A peer that finds that only one end has keys may leave first.
  if (!stream.is_refused())
    return "a connection ended in its handshake without a word: it has no keys, or knows another "
           "one for this host";
  if (stream.has_other_mechanism())
    return has_keys ? "a connection without keys was refused"
                    : "a connection with keys was refused: this broker runs with --insecure";
  return "a connection over tcp was refused in its handshake: " + why;
}

}  // namespace

Result<std::unique_ptr<Listener>> Listener::open(Reactor& reactor,
                                                 const std::vector<HostAddr>& binds,
                                                 KeptListeners& kept, Limits limits,
                                                 Events events) {
  std::unique_ptr<Listener> listener(new Listener(reactor, limits, std::move(events)));
  for (const HostAddr& address : binds) {
    if (auto bound = listener->bind(address, kept); !bound) return fail(bound.error());
  }
  return listener;
}

Listener::Listener(Reactor& reactor, Limits limits, Events events)
    : events_(std::move(events)), router_(reactor, router_limits(limits), router_events()) {}

Listener::~Listener() = default;

void Listener::set_keys(const KeyPair& keys) {
  has_keys_ = true;
  router_.set_keys(CurveKeyPair::from_text(keys.public_key, keys.secret_key));
  router_.end_tcp("has to come again, as this host has a new key");
}

Result<void> Listener::bind(const HostAddr& address, KeptListeners& kept) {
  switch (address.transport()) {
    case Transport::unix_socket: return bind_unix(address, kept);
    case Transport::tcp: return bind_tcp(address, kept);
    case Transport::local: break;
  }
  return fail(ErrorCode::configuration_error,
              address.to_string() +
                  " is an address inside one process; a broker serves unix: and "
                  "tcp: addresses");
}

Result<void> Listener::bind_unix(const HostAddr& address, KeptListeners& kept) {
  if (address.is_any()) {
    auto folder = PrivateFolder::make();
    if (!folder) return fail(folder.error());
    folders_.push_back(std::move(*folder));
    const auto concrete = HostAddr::parse("unix:" + folders_.back().path() + "/bus");
    if (concrete) return bind_unix(*concrete, kept);
    return fail(concrete.error().within("a unix socket among the temporary files (TMPDIR)"));
  }
  const std::string path(address.path());
  try {
    UniqueFd former = kept.take(UnixAddress(path));
    if (!former) {
      if (auto cleared = clear_unix_path(path); !cleared) return cleared;
    }
    // Abstract names are no files; and the mask is that of the whole process, which in local mode
    // is not the broker's own.
    std::optional<PrivateFiles> private_files;
    if (!path.starts_with('@')) private_files.emplace();
    router_.listen(path, std::move(former));
  } catch (const std::system_error& error) {
    return fail(ErrorCode::io_error,
                "cannot listen on " + address.to_string() + ": " + error.what());
  }
  files_.emplace_back(path);
  addresses_.push_back(address);
  return {};
}

Result<void> Listener::bind_for_procs(const HostAddr& address, KeptListeners& kept) {
  if (address.transport() != Transport::unix_socket || address.is_any())
    return fail(
        ErrorCode::configuration_error,
        address.to_string() + ": procs of other users connect by a unix socket with a path");
  if (auto bound = bind_unix(address, kept); !bound) return bound;
  addresses_.pop_back();
  const std::string path(address.path());
  if (!path.starts_with('@') && ::chmod(path.c_str(), 0666) != 0)
    return fail(ErrorCode::io_error, "cannot open " + address.to_string() +
                                         " for procs of other users: " + std::strerror(errno));
  return {};
}

Result<void> Listener::bind_tcp(const HostAddr& address, KeptListeners& kept) {
  // Blocks for a name, but at the start only.
  const auto endpoints = resolve_now(address);
  if (!endpoints) return fail(endpoints.error().within("cannot listen on " + address.to_string()));
  try {
    const auto literal = HostAddr::parse(endpoints->front());
    const auto wanted = literal ? TcpAddress::of(*literal) : std::nullopt;
    if (!wanted) throw std::system_error(EADDRNOTAVAIL, std::generic_category());
    const TcpAddress bound = router_.listen(*wanted, kept.take(*wanted));
    auto concrete = HostAddr::tcp(bound.host(), bound.port());
    if (!concrete) return fail(concrete.error().within("listening on " + address.to_string()));
    addresses_.push_back(*concrete);
  } catch (const std::system_error& error) {
    return fail(ErrorCode::io_error,
                "cannot listen on " + address.to_string() + ": " + error.what());
  }
  return {};
}

StreamRouter::Events Listener::router_events() {
  StreamRouter::Events events;
  events.on_message = [this](ConnectionId from, std::vector<MessagePart>& parts) {
    events_.on_frame(from, parts);
  };
  events.on_accepted = [this](ConnectionId, int descriptor) {
    if (events_.on_accepted) events_.on_accepted(descriptor);
  };
  events.on_writable = [this](ConnectionId id) {
    if (events_.on_writable) events_.on_writable(id);
  };
  events.on_ended = [this](ConnectionId id, const ZmtpStream& stream) {
    on_router_ended(id, stream);
  };
  events.judge = [this](std::string_view key, std::string_view address, bool may_wait) {
    return events_.judge(key, address, may_wait);
  };
  return events;
}

void Listener::on_router_ended(ConnectionId id, const ZmtpStream& stream) {
  const bool is_refused = stream.is_refused();
  const std::string why = is_refused ? "it " + stream.why_ended() : "its connection ended";
  if (is_refused && stream.was_open()) {
    ++unusable_;
    const std::string address = is_local(id) ? "a unix socket" : router_.address_of(id);
    limited_log_.warn("a connection from " + address + " is ended: " + why);
  } else if (!stream.was_open() && !is_unauthorised(stream) &&
             (is_refused || (has_keys_ && !is_local(id))) && events_.on_bad_handshake) {
    events_.on_bad_handshake(describe_handshake(stream, is_local(id), has_keys_));
  }
  if (events_.on_ended) events_.on_ended(id, stream.descriptor(), why);
}

Listener::Sent Listener::send(ConnectionId to, Frame& frame) {
  switch (router_.send(to, frame)) {
    case StreamRouter::Sent::yes: return Sent::yes;
    case StreamRouter::Sent::full: return Sent::full;
    case StreamRouter::Sent::gone: break;
  }
  return Sent::gone;
}

Listener::Origin Listener::origin_of(ConnectionId from) const {
  return {.descriptor = descriptor_of(from),
          .process = router_.process_of(from),
          .address = router_.address_of(from),
          .user = router_.key_of(from)};
}

}  // namespace meshbus
