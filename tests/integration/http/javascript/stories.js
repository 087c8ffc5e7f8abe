// Runs stories one after another, each under a topic of its own. Prints a line of JSON for each:
// its name, and the error if it failed.
"use strict";

exports.tell = async function tell(stories, topic) {
  for (const [number, [story, run]] of Object.entries(stories).entries()) {
    let error = null;
    await run(`${topic}-${number}`).catch((raised) => {
      error = raised.stack ?? String(raised);
    });
    console.log(JSON.stringify({ story, error }));
  }
};
