#include "broker/observe/tap.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "common/base/log.h"
#include "common/wire/control.h"
#include "wire/monitor_generated.h"

namespace meshbus {
namespace {

/// Different filters at a time: each message is compared with every one of them.
constexpr std::size_t kMostStreams = 16;
/// A batch is closed when it has so many bytes; one large body may come on top.
constexpr std::size_t kBatchBytes = 64 * 1024;
/// Batches that wait in libzmq for one subscriber; what comes then is lost to it. 4 MiB, or 70 MiB
/// of the largest bodies.
constexpr int kUnsentBatches = 64;
/// A topic and the byte in front of it.
constexpr std::size_t kSubscriptionLimit = kTapFilterLimit + 64;
constexpr std::size_t kNamesRemembered = 4096;
constexpr std::chrono::seconds kSilence{1};

std::int64_t wall_clock_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Result<std::unique_ptr<Tap>> Tap::open(Reactor& reactor, ToolContext& context,
                                       const HostAddr& address, Monitor::Speaker speaker,
                                       NameOf name_of) {
  std::unique_ptr<Tap> tap(new Tap(reactor, context, std::move(speaker), std::move(name_of)));
  if (auto listening = tap->socket_.listen(address); !listening) return fail(listening.error());
  return tap;
}

Tap::Tap(Reactor& reactor, ToolContext& context, Monitor::Speaker speaker, NameOf name_of)
    : reactor_(reactor),
      speaker_(std::move(speaker)),
      find_text_(std::move(name_of)),
      own_key_(speaker_.host.key()),
      socket_(reactor, context,
              {.name = "the tap",
               .most_unsent = kUnsentBatches,
               .longest_subscription = kSubscriptionLimit,
               .tells_each_subscriber = true},
              [this] { return on_subscription(); }) {}

Tap::~Tap() {
  reactor_.cancel(timer_);
  if (turn_end_ != 0) reactor_.forget_turn_end(turn_end_);
}

bool Tap::on_subscription() {
  constexpr int most_at_once = 256;
  for (int i = 0; i < most_at_once; ++i) {
    const auto text = socket_.receive();
    if (!text) return false;
    if (text->size() < 2 || (text->front() != 0 && text->front() != 1)) continue;
    if (text->front() == 1) {
      subscribe(text->substr(1));
    } else {
      unsubscribe(text->substr(1));
    }
  }
  return true;
}

void Tap::subscribe(const std::string& topic) {
  auto found = streams_.find(topic);
  if (found == streams_.end()) {
    auto request = TapRequest::parse(topic);
    if (!request) return refuse(topic, request.error());
    if (streams_.size() >= kMostStreams)
      return refuse(
          topic,
          Error(ErrorCode::queue_full,
                "this broker has " + std::to_string(kMostStreams) +
                    " taps with different filters already; end one, or use the filter of one"));
    found =
        streams_.emplace(topic, Stream{.request = std::move(*request), .id = next_stream_++}).first;
  }
  if (turn_end_ == 0) {
    log::info("the tap of this broker has a subscriber");
    turn_end_ = reactor_.add_turn_end([this] { on_turn_end(); });
    timer_ = reactor_.after(kSilence, [this] { on_second(); });
    on_change_();
  }
  publish(topic, found->second);
}

void Tap::unsubscribe(const std::string& topic) {
  if (streams_.erase(topic) == 0 || !streams_.empty()) return;
  log::info("the tap of this broker has no subscriber any more");
  reactor_.forget_turn_end(std::exchange(turn_end_, 0));
  reactor_.cancel(std::exchange(timer_, 0));
  names_.clear();
  on_change_();
}

void Tap::refuse(const std::string& topic, const Error& error) {
  wire::TapBatchT batch;
  batch.host = speaker_.host.to_string();
  batch.incarnation = speaker_.incarnation;
  batch.refusal = cut_text(error.detail());
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(wire::CreateTapBatch(builder, &batch), kTapIdentifier);
  publish(topic, builder);
}

std::string_view Tap::name_of(std::uint64_t key) {
  if (const auto found = names_.find(key); found != names_.end()) return found->second;
  std::string name = find_text_(key);
  if (name.empty()) return {};  // it may become known
  if (names_.size() >= kNamesRemembered) names_.clear();
  return names_.emplace(key, std::move(name)).first->second;
}

void Tap::copy(const wire::Envelope& envelope, Bytes body) {
  // A message to this broker itself is not passed on.
  if (envelope.destination_proc() == 0 &&
      (envelope.destination_host() == 0 || envelope.destination_host() == own_key_))
    return;
  wire::Envelope copied = envelope;
  copied.mutate_length(static_cast<std::uint32_t>(body.size()));
  std::int64_t time_ns = 0;
  for (auto& [topic, stream] : streams_) {
    if (!stream.request.filter.matches(copied, find_name_)) continue;
    if (time_ns == 0) time_ns = wall_clock_ns();
    const Bytes wanted = body.substr(0, stream.request.bodies);
    stream.entries.emplace_back(copied, time_ns, static_cast<std::uint32_t>(wanted.size()), 0U);
    stream.bodies += wanted;
    if (stream.entries.size() * sizeof(wire::TapEntry) + stream.bodies.size() >= kBatchBytes)
      publish(topic, stream);
  }
}

void Tap::publish(const std::string& topic, Stream& stream) {
  flatbuffers::FlatBufferBuilder builder(stream.entries.size() * sizeof(wire::TapEntry) +
                                         stream.bodies.size() + 1024);
  std::unordered_set<std::uint64_t> keys;
  std::vector<flatbuffers::Offset<wire::TapName>> names;
  const auto add_name = [&](std::uint64_t key) {
    if (key == 0 || !keys.insert(key).second) return;
    if (const auto text = name_of(key); !text.empty())
      names.push_back(
          wire::CreateTapName(builder, key, builder.CreateString(text.data(), text.size())));
  };
  const wire::Envelope* last = nullptr;
  for (const wire::TapEntry& entry : stream.entries) {
    const wire::Envelope& envelope = entry.envelope();
    // Messages of one pair mostly come one after another.
    if (last != nullptr && last->source_proc() == envelope.source_proc() &&
        last->destination_proc() == envelope.destination_proc() &&
        last->source_host() == envelope.source_host() &&
        last->destination_host() == envelope.destination_host())
      continue;
    last = &envelope;
    add_name(envelope.source_proc());
    add_name(envelope.source_host());
    add_name(envelope.destination_proc());
    add_name(envelope.destination_host());
  }
  const auto all_names = builder.CreateVector(names);
  const auto entries = builder.CreateVectorOfStructs(stream.entries);
  const auto bodies = builder.CreateVector(
      reinterpret_cast<const std::uint8_t*>(stream.bodies.data()), stream.bodies.size());
  const auto host = builder.CreateString(speaker_.host.to_string());
  const auto filter = builder.CreateString(stream.request.text);
  builder.Finish(wire::CreateTapBatch(builder, host, speaker_.incarnation, stream.id, stream.first,
                                      entries, bodies, all_names, filter, stream.request.bodies),
                 kTapIdentifier);
  publish(topic, builder);
  stream.first += stream.entries.size();
  stream.entries.clear();
  stream.bodies.clear();
  stream.last_sent = reactor_.now();
}

void Tap::publish(const std::string& topic, const flatbuffers::FlatBufferBuilder& builder) {
  socket_.publish(topic, bytes_of(builder.GetBufferPointer(), builder.GetSize()));
}

void Tap::on_turn_end() {
  for (auto& [topic, stream] : streams_) {
    if (!stream.entries.empty()) publish(topic, stream);
  }
}

void Tap::on_second() {
  // An empty batch tells a subscriber that it has lost the last one, or that nothing came.
  for (auto& [topic, stream] : streams_) {
    if (reactor_.now() - stream.last_sent >= kSilence) publish(topic, stream);
  }
  timer_ = reactor_.after(kSilence, [this] { on_second(); });
}

}  // namespace meshbus
