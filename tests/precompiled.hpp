#pragma once
// What most tests include, compiled once for all of them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "../src/precompiled.hpp"
