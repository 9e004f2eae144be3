#pragma once

#include <cstddef>

#include "wire/forward.h"

namespace meshbus {

/// How many bytes a verified message becomes when it is unpacked: texts, byte vectors and states,
/// each as often as it is referred to; at least what lists of any length bring. FlatBuffers lets a
/// stranger refer to one long text a hundred thousand times: the message is short, and a receiver
/// that copies what it is told would take up gigabytes. O(references).
std::size_t unpacked_bytes(const wire::Control& control);

}  // namespace meshbus
