#include "tests/integration/transport/zap.h"

#include <array>
#include <utility>

#include "common/loop/zmq_watch.h"
#include "common/security/keys.h"

namespace meshbus {
namespace {

constexpr int kAtOnce = 64;
constexpr std::size_t kMostWaiting = 1024;
constexpr std::size_t kBinaryKey = 32;
/// What libzmq sends: the asker, an empty part, and these.
enum Part : std::size_t {
  kAsker,
  kEmpty,
  kVersion,
  kRequest,
  kDomainPart,
  kAddress,
  kIdentity,
  kMechanism,
  kCredentials,
  kParts
};

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
    return fail(ErrorCode::io_error,
                std::string("keys cannot be checked: inproc://zeromq.zap.01: ") + error.what());
  }
}

Zap::Zap(Reactor& reactor, zmq::context_t& context, Judge judge)
    : reactor_(reactor), judge_(std::move(judge)), socket_(context, zmq::socket_type::router) {
  socket_.set(zmq::sockopt::linger, 0);
  socket_.bind("inproc://zeromq.zap.01");
  watch_zmq(reactor_, socket_.handle(), [this] { return on_readable(); });
}

Zap::~Zap() {
  reactor_.forget_socket(socket_.handle());
}

bool Zap::on_readable() {
  for (int i = 0; i < kAtOnce; ++i) {
    Question parts;
    do {
      zmq::message_t part;
      if (!socket_.recv(part, zmq::recv_flags::dontwait)) return false;
      parts.push_back(std::move(part));
    } while (parts.back().more());
    if (parts.size() >= kParts) answer(parts, waiting_.size() < kMostWaiting);
  }
  return true;
}

void Zap::ask_again() {
  for (Question& question : std::exchange(waiting_, {})) answer(question, /*may_wait=*/false);
}

void Zap::answer(Question& question, bool may_wait) {
  const bool is_curve = question.size() == kParts &&
                        question[kMechanism].to_string_view() == "CURVE" &&
                        question[kCredentials].size() == kBinaryKey &&
                        question[kDomainPart].to_string_view() == kDomain;
  const std::string key = is_curve ? z85_of(question[kCredentials]) : std::string();
  const auto is_taken =
      is_curve ? judge_(key, question[kAddress].to_string_view(), may_wait) : false;
  if (!is_taken) {
    waiting_.push_back(std::move(question));
    return;
  }
  // Whose key it is comes with each message of the connection, as its User-Id.
  const std::array<std::string, 8> parts = {question[kAsker].to_string(),
                                            "",
                                            "1.0",
                                            question[kRequest].to_string(),
                                            *is_taken ? "200" : "400",
                                            *is_taken ? "OK" : "this key is not authorised",
                                            *is_taken ? key : "",
                                            ""};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto more = i + 1 < parts.size() ? zmq::send_flags::sndmore : zmq::send_flags::none;
    if (!socket_.send(zmq::buffer(parts[i]), more | zmq::send_flags::dontwait)) return;
  }
}

}  // namespace meshbus
