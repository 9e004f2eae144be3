#pragma once

#include <cstddef>
#include <string>

#include "common/base/bytes.h"
#include "meshbus/accumulator.h"
#include "meshbus/overlay.h"
#include "meshbus/reducer.h"
#include "meshbus/result.h"
#include "meshbus/status.h"
#include "meshbus/status_mesh.h"
#include "wire/forward.h"

/// The one way in which statuses and values by rank travel (schemas/values.fbs): as part of other
/// messages, or alone as bytes.
///
/// Reading: bytes come from strangers. What is wrong is malformed_message and says what. Memory is
/// O(`message_size`), the size of the whole verified message that the table is in: texts of a
/// message may overlap, so their sum is what counts.
namespace meshbus {

wire::StatusT to_wire(const Status& status);
/// A kind that this side does not know becomes Unknown.
Status from_wire(const wire::Status& status);

wire::StatusOverlayT to_wire(const StatusOverlay& statuses);
Result<StatusOverlay> from_wire(const wire::StatusOverlay& statuses, std::size_t message_size);

wire::StatusMeshT to_wire(const StatusMesh& mesh);
Result<StatusMesh> from_wire(const wire::StatusMesh& mesh, std::size_t message_size);

wire::BlobOverlayT to_wire(const TextOverlay& overlay);
Result<TextOverlay> from_wire(const wire::BlobOverlay& overlay, std::size_t message_size);

wire::PartialReplyT to_wire(const Partial& partial);
/// `is_complete` stays false: the caller that adds the parts up knows how many ranks there are.
Result<Partial> from_wire(const wire::PartialReply& partial, std::size_t message_size);

/// Alone, as bytes.
std::string encode(const StatusOverlay& statuses);
std::string encode(const StatusMesh& mesh);
std::string encode(const Partial& partial);
/// Errors: malformed_message.
Result<StatusOverlay> decode_statuses(Bytes bytes);
Result<StatusMesh> decode_status_mesh(Bytes bytes);
Result<Partial> decode_partial(Bytes bytes);

}  // namespace meshbus
