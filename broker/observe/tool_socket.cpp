#include "broker/observe/tool_socket.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <exception>
#include <system_error>
#include <utility>

#include "common/base/log.h"
#include "common/base/os_error.h"
#include "common/base/unix_address.h"
#include "common/loop/zmq_watch.h"

namespace meshbus {
namespace {

constexpr int kWaitingTools = 100;
/// What libzmq opens for a context and its first socket, and some more: it aborts the process when
/// it cannot open one of them.
constexpr std::size_t kDescriptors = 24;
constexpr std::chrono::seconds kTryAgain{1};

bool has_descriptors() {
  std::array<UniqueFd, kDescriptors> spare;
  for (UniqueFd& one : spare) {
    one.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!one) return false;
  }
  return true;
}

}  // namespace

ToolSocket::ToolSocket(Reactor& reactor, ToolContext& context, Options options,
                       Reactor::SocketHandler on_subscription)
    : reactor_(reactor),
      context_(context),
      options_(std::move(options)),
      on_subscription_(std::move(on_subscription)) {}

ToolSocket::~ToolSocket() {
  reactor_.cancel(timer_);
  if (socket_) reactor_.forget_socket(socket_->handle());
  if (listener_) reactor_.forget(listener_.get());
}

Result<void> ToolSocket::listen(const HostAddr& address) {
  if (address.transport() != Transport::unix_socket || address.is_any())
    return fail(ErrorCode::configuration_error,
                options_.name + " listens at a unix:/path or unix:@name only, not at " +
                    address.to_string());
  if (auto cleared = clear_unix_path(address.path()); !cleared) return fail(cleared.error());
  const UnixAddress path(address.path());
  UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  bool is_bound = false;
  if (listener) {
    const PrivateFiles private_files;
    is_bound = ::bind(listener.get(), path.get(), path.size()) == 0;
  }
  if (!is_bound || ::listen(listener.get(), kWaitingTools) != 0)
    return fail(ErrorCode::io_error,
                os_error(options_.name + " cannot listen at " + address.to_string()));
  file_.emplace(address.path());
  endpoint_ = address.zmq_endpoint();
  listener_ = std::move(listener);
  watch();
  return {};
}

void ToolSocket::watch() {
  reactor_.watch(listener_.get(), EPOLLIN, [this](std::uint32_t) { on_tool(); });
}

void ToolSocket::on_tool() {
  reactor_.forget(listener_.get());
  try {
    if (!has_descriptors()) throw std::system_error(EMFILE, std::generic_category());
    open();
  } catch (const std::exception& error) {
    socket_.reset();
    log::warn(options_.name + " cannot serve the tool that connects: " + error.what() +
              (listener_ ? "; it tries again in a second" : ""));
    if (listener_) timer_ = reactor_.after(kTryAgain, [this] { watch(); });
  }
}

// The tool waits in the backlog of the listening socket, which libzmq takes over.
void ToolSocket::open() {
  socket_.emplace(context_.get(), zmq::socket_type::xpub);
  socket_->set(zmq::sockopt::linger, 0);
  socket_->set(zmq::sockopt::sndhwm, options_.most_unsent);
  socket_->set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(options_.longest_subscription));
  socket_->set(zmq::sockopt::xpub_verbose, options_.tells_each_subscriber ? 1 : 0);
  socket_->set(zmq::sockopt::use_fd, listener_.release());
  socket_->bind(endpoint_);
  watch_zmq(reactor_, socket_->handle(), on_subscription_, ZmqWatch::quiet);
  reactor_.call_again(socket_->handle());
}

std::optional<std::string> ToolSocket::receive() {
  zmq::message_t message;
  if (!socket_ || !socket_->recv(message, zmq::recv_flags::dontwait)) return std::nullopt;
  return message.to_string();
}

void ToolSocket::publish(std::string_view topic, Bytes body) {
  if (!socket_) return;
  // An XPUB socket does not wait: a subscriber that does not read loses the message.
  if (socket_->send(zmq::buffer(topic), zmq::send_flags::sndmore | zmq::send_flags::dontwait))
    socket_->send(zmq::buffer(body), zmq::send_flags::dontwait);
  reactor_.call_again(socket_->handle());
}

}  // namespace meshbus
