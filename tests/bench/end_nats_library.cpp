// Ends on NATS's C library (libnats-dev), when this program is built where it is installed.
#include <stdexcept>

#include "tests/bench/end.h"

#if defined(MESHBUS_HAS_NATS_LIBRARY)
#include <nats/nats.h>

namespace meshbus::bench {

namespace {

void check(natsStatus status, const char* what) {
  if (status != NATS_OK)
    throw std::runtime_error(std::string("NATS library: ") + what + ": " +
                             natsStatus_GetText(status));
}

class NatsLibraryEnd : public End {
 public:
  explicit NatsLibraryEnd(const EndOptions& options) : to_(options.is_asker() ? "other" : "asker") {
    check(natsOptions_Create(&options_), "options");
    check(natsOptions_SetURL(options_, ("nats://127.0.0.1:" + options.address).c_str()), "url");
    // Without it what is sent waits for a thread that collects more.
    check(natsOptions_SetSendAsap(options_, options.flush_each || !options.is_asker()),
          "send asap");
    check(natsConnection_Connect(&connection_, options_), "connect");
    check(natsConnection_SubscribeSync(&subscription_, connection_,
                                       options.is_asker() ? "asker" : "other"),
          "subscribe");
    check(natsSubscription_SetPendingLimits(subscription_, -1, -1), "limits");
    check(natsConnection_Flush(connection_), "flush");
    patience_ =
        options.is_asker() ? std::chrono::milliseconds(kAnswerLimit) : std::chrono::hours(24);
    if (options.is_asker() && options.flush_each) meet();
  }
  ~NatsLibraryEnd() override {
    natsSubscription_Destroy(subscription_);
    natsConnection_Destroy(connection_);
    natsOptions_Destroy(options_);
  }
  NatsLibraryEnd(const NatsLibraryEnd&) = delete;
  NatsLibraryEnd& operator=(const NatsLibraryEnd&) = delete;

  using End::send;
  void send(std::string_view body) override {
    check(natsConnection_Publish(connection_, to_, body.data(), static_cast<int>(body.size())),
          "publish");
  }

  void run(const Program& program) override {
    for (;;) {
      while (program.produce && program.produce()) {
      }
      natsMsg* message = nullptr;
      check(natsSubscription_NextMsg(&message, subscription_, patience_.count()), "no message");
      const bool is_last = !program.consume(
          {natsMsg_GetData(message), static_cast<std::size_t>(natsMsg_GetDataLength(message))});
      natsMsg_Destroy(message);
      if (is_last) return;
    }
  }

 private:
  /// Goes on when the other end, which answers each message, has answered one: in a cluster this
  /// server may not have heard of it yet, and drops what is for nobody, but says so.
  void meet() {
    natsMsg* message = nullptr;
    // The answer comes on our own subject, so the request itself times out.
    while (natsConnection_RequestString(&message, connection_, to_, "", 20) == NATS_NO_RESPONDERS) {
    }
    check(natsSubscription_NextMsg(&message, subscription_, patience_.count()), "no message");
    natsMsg_Destroy(message);
  }

  const char* to_;
  std::chrono::milliseconds patience_{};
  natsOptions* options_ = nullptr;
  natsConnection* connection_ = nullptr;
  natsSubscription* subscription_ = nullptr;
};

}  // namespace

bool has_nats_library() noexcept {
  return true;
}
std::unique_ptr<End> make_nats_library_end(const EndOptions& options) {
  return std::make_unique<NatsLibraryEnd>(options);
}

}  // namespace meshbus::bench

#else

namespace meshbus::bench {

bool has_nats_library() noexcept {
  return false;
}
std::unique_ptr<End> make_nats_library_end(const EndOptions&) {
  throw std::runtime_error("this program was built without NATS's C library");
}

}  // namespace meshbus::bench
#endif
