// Ends that speak the text protocol of NATS on a bare socket: what a client of NATS can do at best.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <stdexcept>

#include "common/base/unique_fd.h"
#include "tests/bench/end.h"

namespace meshbus::bench {

namespace {

constexpr std::size_t kBufferBytes = 64 * 1024;

[[noreturn]] void fail_with(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

class NatsEnd : public End {
 public:
  explicit NatsEnd(const EndOptions& options)
      : flush_each_(options.flush_each),
        socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
        buffer_(kBufferBytes, '\0') {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(options.address)));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int on = 1;
    const timeval limit{kAnswerLimit.count(), 0};
    if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      fail_with("cannot connect to NATS");
    ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const std::string own = options.is_asker() ? "asker" : "other";
    publish_ = std::string("PUB ") + (options.is_asker() ? "other " : "asker ");
    out_ =
        "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":true}\r\n"
        "SUB " +
        own + " 1\r\nPING\r\n";
    flush();
    while (!line().starts_with("PONG")) drop_line();
    drop_line();
    if (!options.is_asker()) return;
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (flush_each_) meet();
  }

  using End::send;
  void send(std::string_view body) override {
    char digits[20];
    const auto end = std::to_chars(digits, digits + sizeof digits, body.size()).ptr;
    out_.append(publish_).append(digits, end).append("\r\n");
    if (body.size() >= kBufferBytes) return flush_with(body);
    out_.append(body).append("\r\n");
    if (flush_each_ || out_.size() >= kBufferBytes) flush();
  }

  void run(const Program& program) override {
    for (;;) {
      while (program.produce && program.produce()) {
      }
      flush();
      // What one read brought is taken before anything is sent.
      do {
        const std::string_view head = line();
        if (head.starts_with("PING")) {
          drop_line();
          out_ += "PONG\r\n";
        } else if (head.starts_with("MSG ")) {
          if (!program.consume(body_after(head))) return;
          drop(line_bytes_ + body_bytes_ + 2);
        } else if (head.starts_with("-ERR")) {
          throw std::runtime_error("NATS says " + std::string(head));
        } else {
          drop_line();
        }
      } while (begin_ < end_);
    }
  }

 private:
  /// Goes on when the other end, which answers each message, has answered one: in a cluster this
  /// server may not have heard of it yet, and drops what is for nobody, but says so.
  void meet() {
    out_ = "SUB nobody 2\r\n";
    bool is_met = false;
    for (bool is_known = false; !is_known;) {
      is_known = true;
      out_ += "PUB other nobody 0\r\n\r\nPING\r\n";
      flush();
      for (; !line().starts_with("PONG"); drop_line()) {
        is_known = is_known && !line().starts_with("HMSG nobody ");
        is_met = is_met || line().starts_with("MSG asker ");
      }
      drop_line();
    }
    if (is_met) return;
    for (; !line().starts_with("MSG asker "); drop_line()) {
    }
    drop_line();
    line();  // its body, which is empty
    drop_line();
  }

  /// The next line, without its end; stays where it is until it is dropped.
  std::string_view line() {
    for (;;) {
      const void* newline = std::memchr(buffer_.data() + begin_, '\n', end_ - begin_);
      if (newline != nullptr) {
        line_bytes_ = static_cast<std::size_t>(static_cast<const char*>(newline) -
                                               (buffer_.data() + begin_)) +
                      1;
        return {buffer_.data() + begin_, line_bytes_ - 2};
      }
      read();
    }
  }
  /// `MSG subject sid length`
  std::string_view body_after(std::string_view head) {
    const char* digits = head.data() + head.rfind(' ') + 1;
    body_bytes_ = 0;
    std::from_chars(digits, head.data() + head.size(), body_bytes_);
    while (end_ - begin_ < line_bytes_ + body_bytes_ + 2) read();
    return {buffer_.data() + begin_ + line_bytes_, body_bytes_};
  }
  void drop(std::size_t bytes) { begin_ += bytes; }
  void drop_line() { drop(line_bytes_); }
  void read() {
    if (!out_.empty()) flush();  // nobody waits for an answer while we wait for more
    if (begin_ == end_) begin_ = end_ = 0;
    if (end_ == buffer_.size()) {
      if (begin_ == 0) buffer_.resize(buffer_.size() * 2);
      std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    const ssize_t got = ::recv(socket_.get(), buffer_.data() + end_, buffer_.size() - end_, 0);
    if (got < 0) fail_with("no message through NATS");
    if (got == 0) throw std::runtime_error("NATS has closed the connection");
    end_ += static_cast<std::size_t>(got);
  }
  void flush() {
    for (std::size_t sent = 0; sent < out_.size();) {
      const ssize_t some =
          ::send(socket_.get(), out_.data() + sent, out_.size() - sent, MSG_NOSIGNAL);
      if (some < 0) fail_with("cannot send to NATS");
      sent += static_cast<std::size_t>(some);
    }
    out_.clear();
  }
  /// A large body goes from where it lies.
  void flush_with(std::string_view body) {
    std::array<iovec, 3> parts = {{{out_.data(), out_.size()},
                                   {const_cast<char*>(body.data()), body.size()},
                                   {line_end_.data(), 2}}};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    while (message.msg_iovlen > 0) {
      const ssize_t some = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
      if (some < 0) fail_with("cannot send to NATS");
      for (auto left = static_cast<std::size_t>(some); message.msg_iovlen > 0;) {
        iovec& part = *message.msg_iov;
        if (left < part.iov_len) {
          part = {static_cast<char*>(part.iov_base) + left, part.iov_len - left};
          break;
        }
        left -= part.iov_len;
        ++message.msg_iov;
        --message.msg_iovlen;
      }
    }
    out_.clear();
  }

  bool flush_each_;
  UniqueFd socket_;
  std::string publish_, out_, buffer_, line_end_ = "\r\n";
  std::size_t begin_ = 0, end_ = 0, line_bytes_ = 0, body_bytes_ = 0;
};

}  // namespace

std::unique_ptr<End> make_nats_end(const EndOptions& options) {
  return std::make_unique<NatsEnd>(options);
}

}  // namespace meshbus::bench
