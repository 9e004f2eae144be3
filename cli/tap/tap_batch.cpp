#include "cli/tap/tap_batch.h"

#include <cstring>
#include <utility>

#include "common/wire/frame.h"
#include "common/wire/tap_filter.h"
#include "meshbus/address.h"
#include "wire/monitor_generated.h"

namespace meshbus::cli {
namespace {

/// What comes above is shown by key: the memory of a tap has a bound.
constexpr std::size_t kMostNames = 1'000'000;

tl::unexpected<Error> malformed(const std::string& what) {
  return fail(ErrorCode::malformed_message, "no batch of a tap: " + what);
}

}  // namespace

Result<TapBatch> TapBatch::decode(Bytes received) {
  auto bytes = std::make_unique<std::uint64_t[]>((received.size() + 7) / 8);
  if (!received.empty()) std::memcpy(bytes.get(), received.data(), received.size());
  const auto* const data = reinterpret_cast<const std::uint8_t*>(bytes.get());
  if (received.size() < 8 || !flatbuffers::BufferHasIdentifier(data, kTapIdentifier))
    return malformed("it is something else");
  flatbuffers::Verifier verifier(data, received.size());
  if (!verifier.VerifyBuffer<wire::TapBatch>(kTapIdentifier))
    return malformed("its parts do not fit together");
  TapBatch batch(std::move(bytes), received.size());
  if (!HostAddr::parse(batch->host()->string_view())) return malformed("its host is no address");
  std::size_t left = batch->bodies() == nullptr ? 0 : batch->bodies()->size();
  if (batch->entries() != nullptr) {
    for (const wire::TapEntry* entry : *batch->entries()) {
      if (entry->copied() > left || entry->copied() > entry->envelope().length() ||
          entry->envelope().length() > kBodyLimit)
        return malformed("its bodies are not as long as it says");
      left -= entry->copied();
    }
  }
  return batch;
}

std::vector<TapMessage> TapBatch::messages() const {
  std::vector<TapMessage> messages;
  const wire::TapBatch& batch = *operator->();
  if (batch.entries() == nullptr) return messages;
  messages.reserve(batch.entries()->size());
  Bytes bodies = batch.bodies() == nullptr
                     ? Bytes()
                     : bytes_of(batch.bodies()->data(), batch.bodies()->size());
  std::uint64_t number = batch.first();
  for (const wire::TapEntry* entry : *batch.entries()) {
    messages.push_back(
        {number++, entry->envelope(), entry->time_ns(), bodies.substr(0, entry->copied())});
    bodies.remove_prefix(entry->copied());
  }
  return messages;
}

void TapNames::learn(const TapBatch& batch) {
  if (batch->names() == nullptr) return;
  for (const wire::TapName* name : *batch->names()) {
    if (names_.size() < kMostNames) names_.try_emplace(name->key(), name->text()->str());
  }
}

std::string_view TapNames::find(std::uint64_t key) const {
  const auto found = names_.find(key);
  return found == names_.end() ? std::string_view() : found->second;
}

std::uint64_t TapCount::missed_before(const TapBatch& batch) {
  const std::pair stream(batch->incarnation(), batch->stream());
  const std::size_t count = batch->entries() == nullptr ? 0 : batch->entries()->size();
  is_interrupted_ = stream_.has_value() && stream_ != stream;
  std::uint64_t missed = 0;
  // Of a stream that is new to us, what came before us was not ours.
  if (stream_ == stream && batch->first() > next_) missed = batch->first() - next_;
  stream_ = stream;
  next_ = batch->first() + count;
  seen_ += count;
  missed_ += missed;
  return missed;
}

}  // namespace meshbus::cli
