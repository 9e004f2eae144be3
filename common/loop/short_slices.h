#pragma once

namespace meshbus {

/// Asks the kernel for shorter time slices than its 1 to 3 ms, for the calling thread and for
/// those it starts from now on. A thread with shorter slices gets the CPU sooner, so a question is
/// answered while a hundred procs start or end on the same CPU. The shares of CPU time do not
/// change. Linux does so since 6.12, without privileges; an older kernel ignores it. Threads with
/// another policy than the usual one stay as they are.
void ask_for_short_slices();

}  // namespace meshbus
