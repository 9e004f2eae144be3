#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "broker/observe/monitor.h"
#include "broker/observe/tool_socket.h"
#include "common/base/bytes.h"
#include "common/loop/reactor.h"
#include "common/wire/tap_filter.h"
#include "meshbus/address.h"
#include "meshbus/result.h"
#include "wire/forward.h"
#include "wire/monitor_generated.h"

namespace meshbus {

/// Copies of the messages that the broker passes on, for subscribers (schemas/monitor.fbs):
/// on a socket beside the monitor's, which loses what a slow subscriber does not take. Does
/// nothing while nobody is subscribed. Lives on the reactor's thread.
class Tap {
 public:
  /// The text of the key of a proc or host, or nothing.
  using NameOf = std::function<std::string(std::uint64_t key)>;

  /// Listens at a unix address. Errors: configuration_error (another transport), io_error.
  static Result<std::unique_ptr<Tap>> open(Reactor& reactor, ToolContext& context,
                                           const HostAddr& address, Monitor::Speaker speaker,
                                           NameOf name_of);
  ~Tap();
  Tap(const Tap&) = delete;
  Tap& operator=(const Tap&) = delete;

  /// Called when is_wanted() has changed.
  void on_change(std::function<void()> handler) { on_change_ = std::move(handler); }
  /// Whether there is a subscriber.
  bool is_wanted() const noexcept { return !streams_.empty(); }
  /// A message that is passed on. To be called only while is_wanted().
  void copy(const wire::Envelope& envelope, Bytes body);

 private:
  /// One topic with subscribers, and what its next batch has so far.
  struct Stream {
    TapRequest request;
    std::uint64_t id = 0;
    std::uint64_t first = 1;
    std::vector<wire::TapEntry> entries = {};
    std::string bodies = {};
    Reactor::Time last_sent = {};
  };

  Tap(Reactor& reactor, ToolContext& context, Monitor::Speaker speaker, NameOf name_of);
  bool on_subscription();
  void subscribe(const std::string& topic);
  void unsubscribe(const std::string& topic);
  void refuse(const std::string& topic, const Error& error);
  /// Sends the batch, even an empty one, and begins the next.
  void publish(const std::string& topic, Stream& stream);
  void publish(const std::string& topic, const flatbuffers::FlatBufferBuilder& builder);
  void on_turn_end();
  void on_second();
  std::string_view name_of(std::uint64_t key);

  Reactor& reactor_;
  Monitor::Speaker speaker_;
  NameOf find_text_;
  std::function<void()> on_change_ = [] {};
  std::uint64_t own_key_;
  ToolSocket socket_;
  std::map<std::string, Stream> streams_;
  std::uint64_t next_stream_ = 1;
  /// Texts of keys that were looked up; the text of a key never changes.
  std::unordered_map<std::uint64_t, std::string> names_;
  const TapFilter::NameOf find_name_ = [this](std::uint64_t key) { return name_of(key); };
  std::uint64_t turn_end_ = 0;
  Reactor::TimerId timer_ = 0;
};

}  // namespace meshbus
