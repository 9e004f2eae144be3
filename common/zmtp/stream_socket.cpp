#include "common/zmtp/stream_socket.h"

#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "common/base/unix_address.h"
#include "common/base/unix_peer.h"
#include "common/zmtp/curve_client.h"
#include "common/zmtp/null_mechanism.h"

namespace meshbus {
namespace {

constexpr std::string_view kIpc = "ipc://";
constexpr std::string_view kSocketType = "DEALER";
/// A broker on another host must be missed soon, by links and launchers alike: a launcher that
/// waits longer for its own broker than for the hosts behind it takes all of those for lost.
constexpr std::chrono::milliseconds kSilence{1500};
/// The kernel does not tell when the last bytes have arrived.
constexpr std::chrono::milliseconds kLookAtArrival{1};

std::unique_ptr<Mechanism> mechanism_of(const BrokerSocket::Keys* keys) {
  if (keys == nullptr) return std::make_unique<NullMechanism>(kSocketType);
  const auto own = CurveKeyPair::from_text(keys->public_key, keys->secret_key);
  const auto server = CurveKey::from_text(keys->server_key);
  if (!own || !server) throw std::system_error(EINVAL, std::generic_category(), "a key is no key");
  return std::make_unique<CurveClient>(*own, *server, kSocketType);
}

}  // namespace

std::unique_ptr<BrokerSocket> BrokerSocket::open(Reactor& reactor, const Options& options,
                                                 Events events) {
  return std::make_unique<StreamSocket>(reactor, options, std::move(events));
}

StreamSocket::StreamSocket(Reactor& reactor, const Options& options, Events events)
    : reactor_(reactor),
      handlers_(std::make_shared<Handlers>(Handlers{std::move(events)})),
      buffer_(std::make_unique_for_overwrite<ZmtpStream::Buffer>()),
      mechanism_(mechanism_of(options.keys)),
      time_to_live_(options.is_link ? kSilence : std::chrono::milliseconds(0)) {
  if (options.endpoint.starts_with(kIpc)) {
    connect_to_unix(options.endpoint.substr(kIpc.size()));
  } else {
    connect_to_tcp(options.endpoint);
  }
}

StreamSocket::~StreamSocket() {
  handlers_->is_gone = true;
  reactor_.cancel(look_timer_);
  reactor_.forget_socket(this);
  if (stream_ && write_on() && silence_) wait_for_arrival();
}

void StreamSocket::connect_to_unix(const std::string& path) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const UnixAddress address(path);
  if (!fd || ::connect(fd.get(), address.get(), address.size()) != 0)
    throw std::system_error(errno, std::generic_category());
  if (const auto trusted = check_unix_listener(fd.get()); !trusted)
    throw UntrustedListener(trusted.error().detail());
  stream_.emplace(std::move(fd), std::move(mechanism_), *buffer_);
  if (!stream_->greet()) throw std::system_error(errno, std::generic_category());
  watch(/*for_writing=*/false);
}

void StreamSocket::connect_to_tcp(const std::string& endpoint) {
  const auto host = HostAddr::parse(endpoint);
  if (!host || host->transport() != Transport::tcp || host->is_any())
    throw std::system_error(EINVAL, std::generic_category(), endpoint);
  connector_ = std::make_unique<TcpConnector>(reactor_, *host, [this](Result<UniqueFd> fd) {
    if (fd) {
      begin(std::move(*fd));
    } else {
      end(fd.error().detail());
    }
  });
}

void StreamSocket::begin(UniqueFd fd) {
  connector_.reset();
  stream_.emplace(std::move(fd), std::move(mechanism_), *buffer_);
  silence_.emplace(kSilence, reactor_.now());
  look_timer_ = reactor_.after(kSilence / 3, [this] { look_for_signs(); });
  // Should the greeting not leave, the end of the connection is the next event.
  if (!stream_->greet()) ::shutdown(stream_->descriptor(), SHUT_RDWR);
  watch(/*for_writing=*/false);
}

void StreamSocket::watch(bool for_writing) {
  watches_writing_ = for_writing;
  reactor_.watch_edges(this, stream_->descriptor(),
                       EPOLLIN | EPOLLRDHUP | (for_writing ? EPOLLOUT : 0U),
                       [this] { return on_event(); });
}

bool StreamSocket::on_event() {
  const auto handlers = handlers_;
  if (watches_writing_ && write_on()) {
    watch(/*for_writing=*/false);
    if (is_open_) handlers->on.on_writable();
    if (handlers->is_gone) return false;
  }
  if (!is_open_) {
    if (!shake_hands()) {
      tell_if_refused();
      if (!handlers->is_gone) tell_if_ended();
      return false;
    }
    is_open_ = true;
    handlers->on.on_open();
    if (handlers->is_gone) return false;
  }
  const bool is_more = handlers->on.on_readable();
  if (handlers->is_gone) return false;
  if (!is_more) tell_if_ended();
  return is_more;
}

void StreamSocket::tell_if_refused() {
  if (!stream_->is_ended()) return;
  const Mechanism& mechanism = stream_->mechanism();
  if (stream_->has_other_mechanism()) {
    handlers_->on.on_handshake_failed(Failure::mechanism);
  } else if (mechanism.state() == Mechanism::State::failed &&
             mechanism.failure() == Mechanism::Failure::unauthorised) {
    handlers_->on.on_handshake_failed(Failure::unauthorised);
  } else if (mechanism.state() == Mechanism::State::failed &&
             mechanism.failure() == Mechanism::Failure::no_room) {
    handlers_->on.on_handshake_failed(Failure::no_room);
  } else if (silence_) {
    handlers_->on.on_handshake_failed(stream_->has_heard() ? Failure::silent
                                                           : Failure::no_greeting);
  }
}

void StreamSocket::tell_if_ended() {
  if (stream_->is_ended()) end("the broker " + stream_->why_ended());
}

void StreamSocket::end(const std::string& why) {
  const auto handlers = handlers_;
  handlers->on.on_ended(why);
}

bool StreamSocket::fill() {
  if (stream_->fill() == 0) return false;
  if (silence_) silence_->hear(reactor_.now());
  return true;
}

bool StreamSocket::shake_hands() {
  std::vector<MessagePart> none;
  while (stream_->next(none) != ZmtpStream::Next::opened) {
    if (!fill()) return false;
  }
  return true;
}

bool StreamSocket::receive(std::vector<MessagePart>& parts) {
  while (stream_->next(parts) != ZmtpStream::Next::message) {
    if (!fill()) return false;
  }
  return true;
}

bool StreamSocket::send(Frame& frame) {
  const bool is_taken = write_on() && stream_->send(frame);
  if (!write_on() && !watches_writing_) watch(/*for_writing=*/true);
  return is_taken;
}

bool StreamSocket::write_on() {
  while (!stream_->write_on()) {
    if (!stream_->wait_writable(lingers_until_)) return false;
  }
  return true;
}

void StreamSocket::wait_for_arrival() {
  while (Reactor::Clock::now() < lingers_until_ && !stream_->has_arrived())
    std::this_thread::sleep_for(kLookAtArrival);
}

void StreamSocket::look_for_signs() {
  // What lies there unread, because its reader is busy or full, is a sign, too.
  int unread = 0;
  if (::ioctl(stream_->descriptor(), FIONREAD, &unread) == 0 && unread > 0)
    silence_->hear(reactor_.now());
  look_timer_ = reactor_.after(kSilence / 3, [this] { look_for_signs(); });
  switch (silence_->look(reactor_.now(), stream_->time_to_live())) {
    case SilenceWatch::Due::nothing: return;
    case SilenceWatch::Due::ping:
      if (!is_open_) return;
      stream_->ping(time_to_live_);
      if (stream_->has_left_over() && !watches_writing_) watch(/*for_writing=*/true);
      return;
    case SilenceWatch::Due::lost:
      end("the broker gave no sign for " + std::to_string(kSilence.count()) + " ms");
      return;
  }
}

void StreamSocket::set_linger(std::chrono::milliseconds linger) {
  lingers_until_ = Reactor::Clock::now() + linger;
}

}  // namespace meshbus
