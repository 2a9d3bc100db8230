// The code stands behind the #, which is not sent anywhere. It is taken out of the address before all else, so that no
// history keeps it, and exchanged for a cookie.
const code = location.hash.slice(1);
history.replaceState(null, "", "/pair");

const say = (what, next) => {
  document.getElementById("what").textContent = what[0].toUpperCase() + what.slice(1);
  document.getElementById("next").textContent = next;
};

async function signIn() {
  if (!code) {
    say("This is where a link leads to", "Get one on the machine where Dragoman runs: dragoman token link");
    return;
  }
  let answer;
  try {
    answer = await fetch("/v1/pair", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ code }),
    });
  } catch {
    say("Dragoman does not answer", "Is it still running? Then load this page again, with a new link.");
    return;
  }
  if (answer.ok) {
    location.replace("/");
    return;
  }
  const { error } = await answer.json();
  say(error.message, error.guidance);
}

signIn();
