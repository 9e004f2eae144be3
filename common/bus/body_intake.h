#pragma once

#include <cstdint>

#include "common/base/bytes.h"
#include "common/bus/chunk_store.h"
#include "common/bus/postbox.h"
#include "common/bus/responder.h"
#include "common/bus/share_inbox.h"
#include "common/loop/reactor.h"
#include "meshbus/result.h"
#include "wire/forward.h"
#include "wire/frame_generated.h"

namespace meshbus {

/// Receives bodies that are larger than a message may be, in chunks or as shared memory, and has
/// them until the message comes. Lives on the reactor's thread.
class BodyIntake {
 public:
  BodyIntake(Reactor& reactor, Responder& responder, const Postbox& postbox)
      : reactor_(reactor), responder_(responder), postbox_(postbox) {}
  ~BodyIntake() { reactor_.cancel(timer_); }
  BodyIntake(const BodyIntake&) = delete;
  BodyIntake& operator=(const BodyIntake&) = delete;

  void set_limit(std::uint64_t bytes) noexcept { store_.set_limit(bytes); }
  /// A call with flag `chunk`, or `share`; it is answered.
  void on_chunk(const wire::Envelope& from, const wire::CallHeader& header, Bytes body);
  void on_share(const wire::Envelope& from, const wire::CallHeader& header, Bytes body);
  /// The body of a message with flag `chunked`. Errors: malformed_message, not_exist.
  Result<ChunkStore::Taken> take(const wire::Envelope& from, Bytes body);
  const ShareInbox& inbox() const noexcept { return inbox_; }
  ShareInbox& inbox() noexcept { return inbox_; }
  /// Bodies that were taken as shared memory.
  std::uint64_t mapped() const noexcept { return mapped_; }

 private:
  Result<void> place(const ChunkStore::Sender& from, const wire::ShareHeader& header);
  void watch();

  Reactor& reactor_;
  Responder& responder_;
  const Postbox& postbox_;
  ChunkStore store_{kBodyLimit};
  ShareInbox inbox_{reactor_};
  std::uint64_t mapped_ = 0;
  Reactor::TimerId timer_ = 0;
};

}  // namespace meshbus
