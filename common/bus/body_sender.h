#pragma once

#include <cstddef>
#include <cstdint>

#include "common/bus/chunk_sender.h"
#include "common/bus/destination.h"
#include "common/bus/postbox.h"
#include "common/bus/requests.h"
#include "common/bus/share_sender.h"
#include "common/loop/reactor.h"
#include "meshbus/shared_body.h"

namespace meshbus {

/// Sends bodies that are larger than a message may be to one proc (spec 9.2): as shared memory to a
/// proc of our host that takes it, in chunks to any other. Lives on the reactor's thread.
class BodySender {
 public:
  using Done = ChunkSender::Done;
  using IsWanted = ChunkSender::IsWanted;
  BodySender(Reactor& reactor, Requests& requests, const Postbox& postbox)
      : requests_(requests),
        postbox_(postbox),
        chunks_(reactor, requests),
        shares_(reactor, requests) {}

  /// Calls `done` once, never from inside this call, unless the body is not wanted any more.
  void send(const Destination& to, SharedBody body, IsWanted is_wanted, Done done) {
    send(requests_.take_id(), to, std::move(body), std::move(is_wanted), std::move(done));
  }
  /// The same for one rank of a cast, whose number is that of all.
  void send(std::uint64_t transfer, const Destination& to, SharedBody body, IsWanted is_wanted,
            Done done);
  /// A copy of a large body for a proc of that host (0: our own): in shared memory only where the
  /// proc can have that.
  SharedBody hold(Bytes body, std::uint64_t host) const;
  /// Whether such a body goes as shared memory to a proc of that host; 0 is our own.
  bool is_shared(const SharedBody& body, std::uint64_t host) const noexcept;
  /// Tells the receiver that no message follows that body.
  void forget(std::uint64_t transfer, const Destination& to) { chunks_.forget(transfer, to); }
  /// Ends all that are under way.
  void fail_all(const Error& error);
  /// Bodies that are under way.
  std::size_t count() const noexcept { return chunks_.count() + shares_.count(); }

 private:
  bool is_here(std::uint64_t host) const noexcept {
    return host == 0 || host == postbox_.own_host();
  }

  Requests& requests_;
  const Postbox& postbox_;
  ChunkSender chunks_;
  ShareSender shares_;
};

}  // namespace meshbus
