#include "common/zmtp/local_socket.h"

#include <sys/socket.h>

#include <cerrno>
#include <string_view>
#include <system_error>

#include "common/base/unix_address.h"
#include "common/base/unix_peer.h"
#include "common/zmtp/zmq_socket.h"

namespace meshbus {
namespace {

constexpr std::string_view kIpc = "ipc://";

UniqueFd connect_to(std::string_view path) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const UnixAddress address(path);
  if (!fd || ::connect(fd.get(), address.get(), address.size()) != 0)
    throw std::system_error(errno, std::generic_category());
  if (const auto trusted = check_unix_listener(fd.get()); !trusted)
    throw UntrustedListener(trusted.error().detail());
  return fd;
}

}  // namespace

std::unique_ptr<BrokerSocket> BrokerSocket::open(Reactor& reactor, zmq::context_t& context,
                                                 const Options& options, Events events) {
  if (options.endpoint.starts_with(kIpc))
    return std::make_unique<LocalSocket>(reactor, options.endpoint, std::move(events));
  return std::make_unique<ZmqSocket>(reactor, context, options, std::move(events));
}

LocalSocket::LocalSocket(Reactor& reactor, const std::string& endpoint, Events events)
    : reactor_(reactor),
      handlers_(std::make_shared<Handlers>(Handlers{std::move(events)})),
      buffer_(std::make_unique_for_overwrite<ZmtpStream::Buffer>()),
      stream_(connect_to(std::string_view(endpoint).substr(kIpc.size())), "DEALER", *buffer_) {
  if (!stream_.greet()) throw std::system_error(errno, std::generic_category());
  watch(/*for_writing=*/false);
}

LocalSocket::~LocalSocket() {
  handlers_->is_gone = true;
  reactor_.forget_socket(this);
  write_on();
}

void LocalSocket::watch(bool for_writing) {
  watches_writing_ = for_writing;
  reactor_.watch_edges(this, stream_.descriptor(),
                       EPOLLIN | EPOLLRDHUP | (for_writing ? EPOLLOUT : 0U),
                       [this] { return on_event(); });
}

bool LocalSocket::on_event() {
  const auto handlers = handlers_;
  if (watches_writing_ && write_on()) {
    watch(/*for_writing=*/false);
    handlers->on.on_writable();
    if (handlers->is_gone) return false;
  }
  if (!is_open_) {
    if (!shake_hands()) {
      if (stream_.has_other_mechanism()) handlers->on.on_handshake_failed(Failure::mechanism);
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

void LocalSocket::tell_if_ended() {
  if (!stream_.is_ended()) return;
  const auto handlers = handlers_;
  handlers->on.on_ended("the broker " + stream_.why_ended());
}

bool LocalSocket::shake_hands() {
  std::vector<zmq::message_t> none;
  while (stream_.next(none) != ZmtpStream::Next::opened) {
    if (stream_.fill() == 0) return false;
  }
  return true;
}

bool LocalSocket::receive(std::vector<zmq::message_t>& parts) {
  while (stream_.next(parts) != ZmtpStream::Next::message) {
    if (stream_.fill() == 0) return false;
  }
  return true;
}

bool LocalSocket::send(Frame& frame) {
  const bool is_taken = write_on() && stream_.send(frame);
  if (!write_on() && !watches_writing_) watch(/*for_writing=*/true);
  return is_taken;
}

bool LocalSocket::write_on() {
  while (!stream_.write_on()) {
    if (!stream_.wait_writable(lingers_until_)) return false;
  }
  return true;
}

void LocalSocket::set_linger(std::chrono::milliseconds linger) {
  lingers_until_ = Reactor::Clock::now() + linger;
}

}  // namespace meshbus
