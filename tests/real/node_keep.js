/* SPDX-License-Identifier: Apache-2.0
 *
 * node_keep.js SOCKET: an HTTP server. /echo/TEXT answers TEXT from a JSON that was parsed and
 * made again; /keep/N/SIZE keeps N buffers of SIZE bytes outside of V8's heap, and answers by
 * how much process.memoryUsage().arrayBuffers grew.
 */
'use strict';
const http = require('http');
const zlib = require('zlib');
const kept = [];
/* Its garbage is to be little beside what is kept. */
const small = { chunkSize: 1024 };

function keep(n, size) {
	const before = process.memoryUsage().arrayBuffers;

	for (let i = 0; i < n; i++)
		kept.push(Buffer.allocUnsafeSlow(size));
	return process.memoryUsage().arrayBuffers - before;
}

const server = http.createServer((request, response) => {
	const [, what, a, b] = request.url.split('/');

	if (what === 'keep')
		return response.end(String(keep(Number(a), Number(b))));
	const text = JSON.parse(JSON.stringify({ list: Array(100).fill(a) })).list[99];
	zlib.deflate(text.repeat(500), small, (error, data) =>
		zlib.inflate(data, small, (error, data) => {
			response.end(data.subarray(0, text.length));
		}));
});

server.keepAliveTimeout = 0;
server.listen(process.argv[2]);
