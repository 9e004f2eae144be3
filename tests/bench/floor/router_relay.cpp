// The floor under a broker: one ROUTER that hands each message of one connection to the other, and
// does nothing else. Usage: meshbus-floor-relay ENDPOINT [--keys PUBLIC SECRET] [ENDPOINT2] [--link
// ENDPOINT3]. With a link it has one local connection and hands what comes from there to another
// relay, over a DEALER, and back. What stands behind --keys is encrypted (CURVE); both relays have
// the same pair. Prints the last endpoint that it listens at; ends when stdin ends.
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include <zmq.hpp>

namespace {

class Relay {
 public:
  explicit Relay(zmq::context_t& context)
      : context_(context), router_(make(zmq::socket_type::router)) {}
  /// For what is bound or connected from now on.
  void set_keys(const char* public_key, const char* secret_key) {
    public_key_ = public_key;
    secret_key_ = secret_key;
  }
  void bind(const char* endpoint) {
    if (!public_key_.empty()) {
      router_.set(zmq::sockopt::curve_server, true);
      router_.set(zmq::sockopt::curve_secretkey, secret_key_);
    }
    router_.bind(endpoint);
  }
  void connect(const char* endpoint) {
    link_.emplace(make(zmq::socket_type::dealer));
    if (!public_key_.empty()) {
      link_->set(zmq::sockopt::curve_publickey, public_key_);
      link_->set(zmq::sockopt::curve_secretkey, secret_key_);
      link_->set(zmq::sockopt::curve_serverkey, public_key_);
    }
    link_->connect(endpoint);
  }
  std::string last_endpoint() { return router_.get(zmq::sockopt::last_endpoint); }

  void run() {
    for (;;) {
      zmq_pollitem_t items[] = {{router_.handle(), 0, ZMQ_POLLIN, 0},
                                {nullptr, 0, ZMQ_POLLIN, 0},
                                {link_ ? link_->handle() : nullptr, -1, ZMQ_POLLIN, 0}};
      if (zmq_poll(items, link_ ? 3 : 2, -1) < 0) continue;
      if (items[1].revents != 0) return;
      zmq::message_t id, body;
      while (router_.recv(id, zmq::recv_flags::dontwait)) {
        if (!router_.recv(body)) return;
        if (link_) {
          first_ = id.to_string();
          link_->send(body, zmq::send_flags::none);
        } else {
          send_to(other_than(id.to_string()), body);
        }
      }
      while (link_ && link_->recv(body, zmq::recv_flags::dontwait)) send_to(first_, body);
    }
  }

 private:
  zmq::socket_t make(zmq::socket_type type) {
    zmq::socket_t socket(context_, type);
    socket.set(zmq::sockopt::linger, 0);
    socket.set(zmq::sockopt::sndhwm, 0);
    socket.set(zmq::sockopt::rcvhwm, 0);
    return socket;
  }
  /// The first peer is alone at first, and gets back what it sends: so it knows that it is
  /// registered.
  const std::string& other_than(const std::string& from) {
    if (first_.empty()) first_ = from;
    if (from == first_) return second_.empty() ? first_ : second_;
    second_ = from;
    return first_;
  }
  void send_to(const std::string& to, zmq::message_t& body) {
    router_.send(zmq::buffer(to), zmq::send_flags::sndmore);
    router_.send(body, zmq::send_flags::none);
  }

  zmq::context_t& context_;
  zmq::socket_t router_;
  std::optional<zmq::socket_t> link_;
  std::string first_, second_;
  std::string public_key_, secret_key_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr,
                 "usage: meshbus-floor-relay ENDPOINT [--keys PUBLIC SECRET] [ENDPOINT2] [--link "
                 "ENDPOINT3]\n");
    return 64;
  }
  zmq::context_t context(1);
  Relay relay(context);
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--link" && i + 1 < argc) {
      relay.connect(argv[++i]);
    } else if (std::string_view(argv[i]) == "--keys" && i + 2 < argc) {
      relay.set_keys(argv[i + 1], argv[i + 2]);
      i += 2;
    } else {
      relay.bind(argv[i]);
    }
  }
  std::printf("%s\n", relay.last_endpoint().c_str());
  std::fflush(stdout);
  relay.run();
}
