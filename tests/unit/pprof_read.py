#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pprof_read.py: decode a gzipped profile.proto, check that all of it holds together, and
print it as text that a test can compare."""
import gzip
import sys


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    """(number, value) of each field; bytes for the length-delimited ones."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 2:
            length, at = varint(data, at)
            assert at + length <= len(data), "a field runs over its message"
            value = data[at:at + length]
            at += length
        else:
            raise AssertionError("wire type %d" % (key & 7))
        yield key >> 3, value


def packed(data):
    at, values = 0, []
    while at < len(data):
        value, at = varint(data, at)
        values.append(value)
    return values


def message(data, repeated=()):
    out = {number: [] for number in repeated}
    for number, value in fields(data):
        if number in out and isinstance(out[number], list):
            out[number].append(value)
        else:
            assert number not in out, "field %d twice" % number
            out[number] = value
    return out


def main(path):
    with open(path, "rb") as file:
        profile = message(gzip.decompress(file.read()), (1, 2, 3, 4, 5, 6, 13))
    strings = [s.decode("utf-8") for s in profile[6]]
    assert strings[0] == "", "the first string isn't empty"
    assert len(set(strings)) == len(strings), "a string twice"
    types = [message(t) for t in profile[1]]
    print("types", " ".join("%s/%s" % (strings[t[1]], strings[t[2]]) for t in types))
    period = message(profile[11])
    print("period %s/%s %d" % (strings[period[1]], strings[period[2]], profile[12]))
    print("default", strings[profile[14]])
    print("time %d duration %d" % (profile.get(9, 0), profile.get(10, 0)))
    for comment in profile[13]:
        print("comment", strings[comment])
    mappings = {}
    for data in profile[3]:
        m = message(data)
        mappings[m[1]] = m
        assert m.get(2, 0) < m[3], "an empty mapping"
        print("mapping %d %s id=%s %s" % (
            m[1], strings[m[5]], strings[m.get(6, 0)],
            "".join(c if m.get(7 + i) else "-" for i, c in enumerate("FNLI"))))
    functions = {}
    for data in profile[5]:
        f = message(data)
        assert f[1] not in functions
        functions[f[1]] = f
    locations = {}
    for data in profile[4]:
        loc = message(data, (4,))
        assert loc[1] not in locations
        lines = []
        for line in map(message, loc[4]):
            f = functions[line[1]]
            lines.append("%s@%s:%d" % (strings[f.get(2, 0)], strings[f.get(4, 0)],
                                       line.get(2, 0)))
        if 2 in loc:
            m = mappings[loc[2]]
            assert m.get(2, 0) <= loc[3] < m[3], "an address outside of its mapping"
        locations[loc[1]] = "+".join(lines) or "?"
    for data in profile[2]:
        sample = message(data, (3,))
        values = packed(sample[2])
        assert len(values) == len(types)
        labels = ["%s=%d" % (strings[label[1]], label[3]) for label in map(message, sample[3])]
        print("sample", *values, *labels,
              ";".join(locations[i] for i in packed(sample[1])))


main(sys.argv[1])
