#include "broker/zap.h"

#include <array>
#include <utility>
#include <vector>

#include "common/keys.h"

namespace meshbus {
namespace {

constexpr int kAtOnce = 64;
constexpr std::size_t kBinaryKey = 32;
/// What libzmq sends: who asks, an empty part, and these.
enum Part : std::size_t { kAsker, kEmpty, kVersion, kRequest, kDomainPart, kAddress, kIdentity, kMechanism, kCredentials, kParts };

std::string z85_of(const zmq::message_t& binary) {
  std::array<char, kKeySize + 1> text{};
  zmq_z85_encode(text.data(), static_cast<const std::uint8_t*>(binary.data()), binary.size());
  return text.data();
}

}  // namespace

Result<std::unique_ptr<Zap>> Zap::open(Reactor& reactor, zmq::context_t& context, Judge judge) {
  try {
    return std::unique_ptr<Zap>(new Zap(reactor, context, std::move(judge)));
  } catch (const zmq::error_t& error) {
    return fail(ErrorCode::io_error, std::string("keys cannot be checked: inproc://zeromq.zap.01: ") + error.what());
  }
}

Zap::Zap(Reactor& reactor, zmq::context_t& context, Judge judge)
    : reactor_(reactor), judge_(std::move(judge)), socket_(context, zmq::socket_type::router) {
  socket_.set(zmq::sockopt::linger, 0);
  socket_.bind("inproc://zeromq.zap.01");
  reactor_.watch_socket(socket_.handle(), [this] { return on_readable(); });
}

Zap::~Zap() {
  reactor_.forget_socket(socket_.handle());
}

bool Zap::on_readable() {
  for (int i = 0; i < kAtOnce; ++i) {
    std::vector<zmq::message_t> parts;
    do {
      zmq::message_t part;
      if (!socket_.recv(part, zmq::recv_flags::dontwait)) return false;
      parts.push_back(std::move(part));
    } while (parts.back().more());
    if (parts.size() < kParts) continue;
    const bool is_curve = parts[kMechanism].to_string_view() == "CURVE" && parts.size() == kParts &&
                          parts[kCredentials].size() == kBinaryKey && parts[kDomainPart].to_string_view() == kDomain;
    const std::string key = is_curve ? z85_of(parts[kCredentials]) : std::string();
    const bool is_taken = is_curve && judge_(key, parts[kAddress].to_string_view());
    // Whose key it is comes with each message of the connection, as its User-Id.
    for (const auto& [text, is_last] : {std::pair<std::string, bool>{parts[kAsker].to_string(), false},
                                        {"", false},
                                        {"1.0", false},
                                        {parts[kRequest].to_string(), false},
                                        {is_taken ? "200" : "400", false},
                                        {is_taken ? "OK" : "this key is not authorised", false},
                                        {is_taken ? key : "", false},
                                        {"", true}}) {
      if (!socket_.send(zmq::buffer(text), (is_last ? zmq::send_flags::none : zmq::send_flags::sndmore) | zmq::send_flags::dontwait)) break;
    }
  }
  return true;
}

}  // namespace meshbus
