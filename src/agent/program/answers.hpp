#pragma once
// The answers to ReadLog and Collect.

#include <cstdint>
#include <memory>

#include "attempts.hpp"
#include "combu/agent.hpp"
#include "connection.hpp"
#include "folder.hpp"
#include "loop.hpp"

namespace combu::agent {

std::unique_ptr<Answer> make_log_answer(Attempts& attempts, std::uint64_t attempt, const ReadLog& request);

std::unique_ptr<Answer> make_archive_answer(Loop& loop, Attempts& attempts, const Folder& folder,
                                            std::uint64_t attempt, const CollectRest& request);

}  // namespace combu::agent
